declare module 'aedes-persistence-level' {
  // The package has no types; the benchmark only passes the persistence to aedes.
  const persistence: (db: unknown) => unknown;

  export { persistence as default };
}
