import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, inject } from 'vitest';
import type { Store } from '../../src/store/contract.ts';
import { connectPglite, connectPostgres } from '../../src/store/postgres/connect.ts';
import type { Database } from '../../src/store/postgres/database.ts';
import { migrate } from '../../src/store/postgres/migrate.ts';
import { createStore } from '../../src/store/postgres/store.ts';
import { prepareTenantRole } from '../../src/store/postgres/tenant-role.ts';
import { MemoryDatabase } from './memory-store/database.ts';
import { openMemoryStore } from './memory-store/store.ts';
import { copyPglite } from './pglite.ts';
import { connectSharedPglite } from './shared-pglite.ts';

const TEMPLATE = 'twinkeep_template';
/** Test files may create the template concurrently. */
const TEMPLATE_LOCK = 7_421_900;

async function asAdmin<T>(serverUrl: string, run: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: `${serverUrl}/postgres` });
  await client.connect();
  try {
    return await run(client);
  } finally {
    await client.end();
  }
}

async function createTemplate(serverUrl: string): Promise<void> {
  await asAdmin(serverUrl, async (client) => {
    await client.query('select pg_advisory_lock($1)', [TEMPLATE_LOCK]);
    const temporary = `${TEMPLATE}_temporary`;
    if ((await client.query('select from pg_database where datname = $1', [TEMPLATE])).rowCount !== 0) return;
    await client.query(`create database ${temporary}`);
    const database = connectPostgres(`${serverUrl}/${temporary}`);
    await migrate(database);
    await database.close();
    await client.query(`alter database ${temporary} rename to ${TEMPLATE}`);
  });
}

/** By the URL of the server: each connection to it starts a process. */
const templates = new Map<string, Promise<void>>();

async function makeTemplate(serverUrl: string): Promise<void> {
  const made = templates.get(serverUrl) ?? createTemplate(serverUrl);
  templates.set(serverUrl, made);
  await made.catch((error) => {
    templates.delete(serverUrl);
    throw error;
  });
}

/** A PostgreSQL database of a role that is no superuser, with its URL as this role. Empty. */
export async function ownedDatabase(
  serverUrl: string,
  attributes = 'createrole',
): Promise<FreshDatabase & { owner: string; asAdmin(sql: string): Promise<void> }> {
  const { url, drop } = await freshDatabase(serverUrl, true);
  const name = new URL(url).pathname.slice(1);
  const owner = `${name}_owner`;
  const runAsAdmin = (sql: string): Promise<void> =>
    asAdmin(serverUrl, async (client) => void (await client.query(sql)));
  await runAsAdmin(`create role ${owner} login ${attributes}`);
  await runAsAdmin(`alter database ${name} owner to ${owner}`);
  const ownUrl = new URL(url);
  ownUrl.username = owner;
  return {
    ...{ url: ownUrl.href, owner, asAdmin: runAsAdmin },
    async drop() {
      await drop();
      await runAsAdmin(`drop role if exists ${name}_tenant`);
      await runAsAdmin(`drop role ${owner}`);
    },
  };
}

/** A new PostgreSQL database; `drop` removes it even if there are connections. */
export interface FreshDatabase {
  url: string;
  drop(): Promise<void>;
}

/** A new database, migrated unless `empty`. `serverUrl` is the value of `inject('postgresUrl')`. */
export async function freshDatabase(serverUrl: string, empty = false): Promise<FreshDatabase> {
  if (!empty) await makeTemplate(serverUrl);
  return createDatabase(serverUrl, empty ? null : TEMPLATE);
}

/** A copy of a database without connections. */
export const copyOf = ({ url }: FreshDatabase): Promise<FreshDatabase> => {
  const { pathname } = new URL(url);
  return createDatabase(url.slice(0, -pathname.length), pathname.slice(1));
};

/** With the schema and rows of the database `template`, or empty. */
async function createDatabase(serverUrl: string, template: string | null): Promise<FreshDatabase> {
  const name = `test_${randomBytes(6).toString('hex')}`;
  await asAdmin(serverUrl, async (client) => {
    if (template === null) return client.query(`create database ${name}`);
    const { rows } = await client.query<{ version: number }>(
      `select current_setting('server_version_num')::int as version`,
    );
    // Half of the work of the default, which writes all pages to the log. PostgreSQL 14 always copies files.
    const strategy = (rows[0]?.version ?? 0) >= 150_000 ? ' strategy file_copy' : '';
    return client.query(`create database ${name} template ${template}${strategy}`);
  });
  return {
    url: `${serverUrl}/${name}`,
    drop: () => asAdmin(serverUrl, async (client) => void (await client.query(`drop database ${name} with (force)`))),
  };
}

export interface Backend {
  name: 'memory' | 'PGlite' | 'PostgreSQL';
  store: Store;
  /** The same database, for data that the store does not return; not available in memory. */
  database: Database;
  /** Only for PostgreSQL. */
  url: string | null;
}

/** A new database in memory. */
export async function openMemory(): Promise<{ backend: Backend; close(): Promise<void> }> {
  const store = openMemoryStore(new MemoryDatabase());
  return {
    backend: {
      name: 'memory',
      store,
      get database(): Database {
        throw new Error('the store in memory does not support SQL');
      },
      url: null,
    },
    close: () => store.close(),
  };
}

/** A new migrated PGlite on files. */
export async function openPglite(): Promise<{ backend: Backend; close(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-pglite-'));
  const database = await connectPglite(copyPglite(inject('pgliteTemplate'), folder));
  const backend: Backend = { name: 'PGlite', store: createStore(database), database, url: null };
  return {
    backend,
    async close() {
      await database.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The PGlite of this worker, with empty tables and a new session. Closing it keeps the process running. */
export async function openSharedPglite(): Promise<{ backend: Backend; close(): Promise<void> }> {
  const database = await connectSharedPglite();
  const backend: Backend = { name: 'PGlite', store: createStore(database), database, url: null };
  return { backend, close: () => database.close() };
}

/** From now on the statements of tenants are subject to row-level security. Returns the role. */
export async function enableRowSecurity(database: Database): Promise<string> {
  const prepared = await prepareTenantRole(database);
  if ('problem' in prepared) throw new Error(prepared.problem);
  database.setTenantRole(prepared.role);
  return prepared.role;
}

/** A new database on PostgreSQL, with row-level security. */
export async function openPostgres(serverUrl: string): Promise<{ backend: Backend; close(): Promise<void> }> {
  const { url, drop } = await freshDatabase(serverUrl);
  const database = connectPostgres(url);
  await enableRowSecurity(database);
  const backend: Backend = { name: 'PostgreSQL', store: createStore(database), database, url };
  return {
    backend,
    async close() {
      await database.close();
      await drop();
    },
  };
}

interface Kind {
  name: Backend['name'];
  open: typeof openMemory;
}
type Suite = (backend: () => Backend, has: { sql: boolean }) => void;

function databases(): Kind[] {
  const serverUrl = inject('postgresUrl');
  const postgres: Kind[] = serverUrl === null ? [] : [{ name: 'PostgreSQL', open: () => openPostgres(serverUrl) }];
  return [{ name: 'PGlite', open: openSharedPglite }, ...postgres];
}

/**
 * Runs the suite on the store in memory, on PGlite with files and, if it is installed, on PostgreSQL. One database,
 * empty at the start, serves a whole suite: tests are separated by their ids. `backend()` is available from `beforeAll`
 * on. Tests of rows that the contract does not return need `sql`.
 */
export function eachStore(title: string, suite: Suite): void {
  for (const kind of [{ name: 'memory' as const, open: openMemory }, ...databases()]) onStore(title, kind, suite);
}

/** Like `eachStore`, without the store in memory: for suites that compare the contract's results with rows. */
export function eachDatabase(title: string, suite: Suite): void {
  for (const kind of databases()) onStore(title, kind, suite);
}

/**
 * Runs the suite on PostgreSQL, or on PGlite if it is not installed: for many calls whose statements are tested on each
 * store by `eachStore`. `EVERY_CASE=1` runs it on each.
 */
export function oneDatabase(title: string, suite: Suite): void {
  const kinds = process.env.EVERY_CASE === '1' ? databases() : databases().slice(-1);
  for (const kind of kinds) onStore(title, kind, suite);
}

/** Runs the suite on PostgreSQL if it is installed. */
export function onPostgres(title: string, suite: Suite): void {
  for (const kind of databases()) if (kind.name === 'PostgreSQL') onStore(title, kind, suite);
}

function onStore(title: string, { name, open }: Kind, suite: Suite): void {
  describe(`${title} (${name})`, () => {
    let opening: ReturnType<typeof openMemory> | undefined;
    let opened: Awaited<ReturnType<typeof openMemory>> | undefined;
    beforeAll(async () => {
      opening = open();
      opened = await opening;
    });
    // Also a store that opens after the hook's limit: the next suite of the worker connects to the same database.
    afterAll(async () => (await opening?.catch(() => undefined))?.close());
    const backend = (): Backend => {
      if (!opened) throw new Error('the store opens in beforeAll');
      return opened.backend;
    };
    suite(backend, { sql: name !== 'memory' });
  });
}
