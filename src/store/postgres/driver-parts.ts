import pg from 'pg';

/** The methods that `TenantQuery` uses and the types of the driver do not declare. */
const METHODS = {
  Query: ['submit', 'handleDataRow', 'handleCommandComplete', 'requiresPreparation'],
  Connection: ['bind', 'execute'],
} as const;
const STREAM_METHODS = ['cork', 'uncork', 'destroy'] as const;

interface DriverClass {
  prototype: object;
}
/** The classes of a version of `pg`, as far as they are checked. */
export type DriverClasses = Readonly<Record<keyof typeof METHODS, unknown>>;

const isClass = (value: unknown): value is DriverClass => typeof value === 'function';
const hasMethod = (object: unknown, name: string): boolean =>
  typeof object === 'object' && object !== null && typeof Reflect.get(object, name) === 'function';

/** The missing parts of a driver, such as `Connection.prototype.bind`. Opens no connection. */
export function missingDriverParts(driver: DriverClasses): string[] {
  const missing: string[] = [];
  for (const [name, methods] of Object.entries(METHODS)) {
    const { [name as keyof DriverClasses]: found } = driver;
    if (!isClass(found)) missing.push(name);
    else
      for (const method of methods)
        if (!hasMethod(found.prototype, method)) missing.push(`${name}.prototype.${method}`);
  }
  if (missing.length > 0) return missing;
  const connection: unknown = Reflect.construct(driver.Connection as new () => object, [{}]);
  const stream: unknown = Reflect.get(connection as object, 'stream');
  for (const method of STREAM_METHODS) if (!hasMethod(stream, method)) missing.push(`Connection.stream.${method}`);
  const query = Reflect.construct(driver.Query as new () => { requiresPreparation(): boolean }, [
    { text: 'select 1', queryMode: 'extended' },
  ]) as { requiresPreparation(): boolean };
  if (!query.requiresPreparation()) missing.push("queryMode: 'extended'");
  return missing;
}

/** Throws an `Error` that names the missing parts: without them no statement could be limited to a tenant. */
export function requireDriverParts(driver: DriverClasses = pg): void {
  const missing = missingDriverParts(driver);
  if (missing.length === 0) return;
  throw new Error(
    `The installed version of pg lacks ${missing.join(', ')}, which row-level security needs. Install the version that package.json names, or adapt src/store/postgres/tenant-query.ts.`,
  );
}
