import { join } from 'node:path';
import type { Clock } from '../domain/clock.ts';
import type { Lease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import type { Milliseconds } from '../domain/values.ts';
import { MemoryRateLimiter } from './cache/memory-rate-limiter.ts';
import { NodeShareRateLimiter } from './cache/node-share-rate-limiter.ts';
import { type CacheDatabase, PostgresCache } from './cache/postgres-cache.ts';
import { RedisCache } from './cache/redis-cache.ts';
import { RedisRateLimiter } from './cache/redis-rate-limiter.ts';
import { SharedRedisRateLimiter } from './cache/shared-redis-rate-limiter.ts';
import type { Cluster } from './contract/cluster.ts';
import type { RateLimiter } from './contract/rate-limiter.ts';
import type { ActiveLock, Cache, Store } from './contract.ts';
import { AdvisoryLock, type AdvisoryLockParts } from './lock/advisory-lock.ts';
import { sharedLockTiming } from './lock/lock-timing.ts';
import { PostgresCluster } from './lock/postgres-cluster.ts';
import { sharedOwnership } from './lock/shared-ownership.ts';
import { SocketLock } from './lock/socket-lock.ts';
import { connectPglite, connectPostgres, connectThread } from './postgres/connect.ts';
import type { Database } from './postgres/database.ts';
import { SCHEMA_LOCK_TIMEOUT_MS } from './postgres/lock-retry.ts';
import { migrate } from './postgres/migrate.ts';
import type { PgliteThread } from './postgres/pglite/thread.ts';
import { createStore } from './postgres/store.ts';
import { checkTableOwner, prepareTenantRole } from './postgres/tenant-role.ts';
import { WaitingContracts } from './postgres/waiting-contracts.ts';

/** Data location of a deployment: PostgreSQL if there is a URL, otherwise the embedded database in `dataDir`. */
export interface DataLocation {
  databaseUrl: string | null;
  dataDir: string;
}

/** Whether PostgreSQL limits statements for a tenant to its rows; `on` only if the service can use a role for that. */
export type RowSecurity = 'on' | 'off' | 'required';

/** The store, and its database for parts that share it. */
interface OpenedStore {
  store: Store;
  database: Database;
  /** Migrations that are applied when no node of an older build is alive. */
  contracts: WaitingContracts;
}

/** The configuration requires row-level security, and the database does not permit it. */
export class RowSecurityUnavailable extends Error {
  override name = 'RowSecurityUnavailable';
}

/** The process that opens the store as the active one. */
export interface StoreOwner {
  /** It is held. */
  lock: ActiveLock;
  log: Log;
  /** Aborts a migration that waits for other transactions. */
  signal: AbortSignal;
  /** The thread of the embedded database, which may still be starting; without it, one is started. */
  thread?: PgliteThread | undefined;
  /** See `DeviceCounts`. */
  generation?: (() => number) | undefined;
  /** Of PostgreSQL; the embedded database has one user, who is not subject to policies. */
  rowSecurity: RowSecurity;
  /** Called before any migration; if it throws, nothing is migrated. */
  check?(store: Pick<Store, 'sealedValues'>): Promise<void>;
}

/**
 * The store of this process, migrated. With the lock of an `owner`, every connection and every group commit is fenced, as
 * another process may have taken over, and a migration waits for transactions of other programs without blocking others.
 * Throws `SchemaMismatch` if the schema does not match this program, `StoreUnavailable` if the database does not answer,
 * `NotTableOwner` or `RowSecurityUnavailable` if the database role of the service is not suitable.
 */
export async function openStoreAndDatabase(
  { databaseUrl, dataDir }: DataLocation,
  owner?: StoreOwner,
): Promise<OpenedStore> {
  const fence = owner?.lock instanceof AdvisoryLock ? owner.lock.fence() : null;
  const database: Database =
    databaseUrl === null ? await connectEmbedded(dataDir, owner?.thread) : connectPostgres(databaseUrl, { fence });
  try {
    if (owner)
      database.setResourceReporter(reporter(owner.log, 'database: no disk space, or another resource is missing'));
    const store = createStore(database, owner?.generation, fence);
    await owner?.check?.(store);
    const { waiting } = await migrate(database, {
      shared: fence !== null && fence.allShardsEpoch === null,
      ...(owner && { lockTimeoutMs: SCHEMA_LOCK_TIMEOUT_MS, retry: owner }),
    });
    const secured = owner !== undefined && databaseUrl !== null && (await secureRows(database, owner));
    const contracts = new WaitingContracts(database, waiting, secured ? () => grantAgain(database, owner) : undefined);
    return { store, database, contracts };
  } catch (error) {
    await database.close().catch(() => {});
    throw error;
  }
}

async function connectEmbedded(dataDir: string, thread?: PgliteThread): Promise<Database> {
  if (thread === undefined) return connectPglite(join(dataDir, 'db'));
  await thread.ready();
  return connectThread(thread);
}

/**
 * Whether statements of tenants run as a role of their own. Throws if the policies apply to the service itself, or if they
 * are `required` and not possible.
 */
async function secureRows(database: Database, { rowSecurity, log }: StoreOwner): Promise<boolean> {
  await checkTableOwner(database);
  if (rowSecurity === 'off') return false;
  const tenantRole = await prepareTenantRole(database);
  if ('role' in tenantRole) {
    const message = 'row-level security: the database refused the role of tenants or a privilege of it';
    database.setTenantRole(tenantRole.role, reporter(log, message));
    return true;
  }
  const { problem } = tenantRole;
  if (rowSecurity === 'required') throw new RowSecurityUnavailable(`ROW_SECURITY=required is not possible: ${problem}`);
  log.warn({ problem }, 'row-level security is not in use');
  return false;
}

/** Grants privileges for tables that a migration has made since the start. */
async function grantAgain(database: Database, { log }: StoreOwner): Promise<void> {
  const failed = (fields: object) =>
    log.warn(fields, 'row-level security: privileges not granted after a migration; a restart grants them');
  const tenantRole = await prepareTenantRole(database).catch((err: unknown) => failed({ err }));
  if (tenantRole && 'problem' in tenantRole) failed(tenantRole);
}

/** Each request may fail for the same reason, so it is logged once in a minute. */
const REPORT_MS: Milliseconds = 60_000;

function reporter(log: Log, message: string): (error: Error) => void {
  let nextAt = 0;
  return (error) => {
    const now = performance.now();
    if (now < nextAt) return;
    nextAt = now + REPORT_MS;
    log.error({ err: error }, message);
  };
}

/** Like `openStoreAndDatabase`, for a program that does not act as the active process. */
export const openStore = async (location: DataLocation): Promise<Store> => (await openStoreAndDatabase(location)).store;

/**
 * The active lock. It is acquired before the store is opened: the embedded database must never be open twice, and a
 * standby must not migrate under the active process.
 */
export const openLock = ({ databaseUrl, dataDir }: DataLocation, parts: AdvisoryLockParts): ActiveLock =>
  databaseUrl === null ? new SocketLock(dataDir) : new AdvisoryLock(databaseUrl, parts);

/** The lock of a node that shares the database with others. */
export const openSharedLock = (databaseUrl: string, parts: AdvisoryLockParts): ActiveLock =>
  new AdvisoryLock(databaseUrl, {
    ...parts,
    timing: { ...sharedLockTiming, ...parts.timing },
    ownership: sharedOwnership,
  });

/** The nodes that share the database; `lock` is a held `openSharedLock`. */
export function openCluster(lock: ActiveLock, log: Log): Cluster {
  if (!(lock instanceof AdvisoryLock)) throw new Error('nodes share a PostgreSQL database only');
  return new PostgresCluster(lock, log);
}

const CACHE_WAIT_MS = 2_000;

/**
 * Redis or Valkey if there is a URL, otherwise the database of the store. A server that does not answer delays the start
 * by 2 s at most. The server is changed only while `lease` is valid.
 */
export async function openCache(
  { redisUrl }: { redisUrl: string | null },
  lease: Lease,
  database: CacheDatabase,
): Promise<Cache> {
  const cache = redisUrl === null ? new PostgresCache(database, lease) : new RedisCache(redisUrl, lease);
  await cache.ready(CACHE_WAIT_MS);
  return cache;
}

/**
 * The rate limiter of this process; with Redis, the next process continues its windows. With several active nodes,
 * `nodes` returns their number: they share the counters in Redis, or divide the limits without it.
 */
export function openRateLimiter(
  { redisUrl }: { redisUrl: string | null },
  clock: Clock,
  lease: Lease,
  nodes: (() => number) | null = null,
): RateLimiter {
  if (nodes === null)
    return redisUrl === null ? new MemoryRateLimiter(clock) : new RedisRateLimiter(redisUrl, clock, lease);
  return redisUrl === null
    ? new NodeShareRateLimiter(new MemoryRateLimiter(clock), nodes)
    : new SharedRedisRateLimiter(redisUrl, clock, lease, nodes);
}

export { readDatabaseClock } from './postgres/database-clock.ts';
export { readValuesWithOtherKeys } from './postgres/other-keys.ts';
