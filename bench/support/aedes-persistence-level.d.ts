declare module 'aedes-persistence-level' {
  // The package has no types; the benchmark only hands the persistence on.
  const persistence: (db: unknown) => unknown;

  export { persistence as default };
}
