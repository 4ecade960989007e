import { afterEach, inject, vi } from 'vitest';
import { SHARD_COUNT } from '../../../src/domain/shards.ts';
import type { Uuid } from '../../../src/domain/values.ts';
import type { Store } from '../../../src/store/contract.ts';
import { AdvisoryLock } from '../../../src/store/lock/advisory-lock.ts';
import type { BuildLevels } from '../../../src/store/lock/node-registration.ts';
import type { OwnershipProtocol } from '../../../src/store/lock/ownership-protocol.ts';
import { PostgresCluster } from '../../../src/store/lock/postgres-cluster.ts';
import { sharedOwnership } from '../../../src/store/lock/shared-ownership.ts';
import { connectPostgres } from '../../../src/store/postgres/connect.ts';
import type { Database } from '../../../src/store/postgres/database.ts';
import { createStore } from '../../../src/store/postgres/store.ts';
import { deviceCommit, newId } from '../../support/actor-commits.ts';
import { longLivedLockParts, silentLog } from '../../support/lock-parts.ts';
import { freshDatabase } from '../../support/store.ts';
import { sql } from '../../support/write-oracle.ts';

export const serverUrl = inject('postgresUrl');
export const never = new AbortController().signal;
export const allShards = Array.from({ length: SHARD_COUNT }, (_, shard) => shard);
export const closing: (() => Promise<unknown> | unknown)[] = [];

/** Closes after each test of the file what it has opened. */
export function withNodes(): void {
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
}

export async function database(empty = false): Promise<string> {
  const { url, drop } = await freshDatabase(serverUrl ?? '', empty);
  closing.push(drop);
  return url;
}

export function lockOf(url: string, ownership?: OwnershipProtocol, levels?: BuildLevels): AdvisoryLock {
  const node = { ...longLivedLockParts.node, ...(levels && { levels }) };
  const lock = new AdvisoryLock(url, { ...longLivedLockParts, node, ...(ownership && { ownership }) });
  closing.push(() => lock.release());
  return lock;
}

export interface TestNode {
  lock: AdvisoryLock;
  cluster: PostgresCluster;
  pool: Database;
  store: Store;
  lost: ReturnType<typeof vi.fn>;
}

/** A node that is active. */
export async function nodeOf(url: string, levels?: BuildLevels): Promise<TestNode> {
  const lock = lockOf(url, sharedOwnership, levels);
  await lock.acquire(never);
  const lost = vi.fn();
  lock.onLost(lost);
  const cluster = new PostgresCluster(lock, silentLog);
  await cluster.announce('active', '127.0.0.1:7000');
  const pool = connectPostgres(url, { fence: lock.fence() });
  closing.push(() => pool.close());
  return { lock, cluster, pool, store: createStore(pool, undefined, lock.fence()), lost };
}

/** The lock's session ends on the server, as after a crash of the process. */
export const endLockSession = (url: string, { lock }: TestNode): Promise<unknown> =>
  sql(url, `select pg_terminate_backend(${lock.fence().lockPid}, 5000)`);

export const ownersOf = async ({ cluster }: TestNode): Promise<Set<Uuid | null>> =>
  new Set((await cluster.view()).owners);

/** A device of a tenant in this shard. */
export const deviceIn = (shard: number) =>
  deviceCommit({ tenantId: `${newId().slice(0, -2)}${shard.toString(16).padStart(2, '0')}` });
