import type { BackoffLimits } from '../../domain/backoff.ts';
import { DATA_LEVEL } from '../../domain/data-level.ts';
import { type LockRetry, retryWhileLocked, SCHEMA_LOCK_TIMEOUT_MS } from '../postgres/lock-retry.ts';
import { MIGRATION_LOCK } from '../postgres/migrate.ts';
import { nodes } from '../postgres/migrations/0013-nodes.ts';
import { clusterNodes } from '../postgres/migrations/0019-shards.ts';
import { nodeFigures } from '../postgres/migrations/0022-node-figures.ts';
import { levels } from '../postgres/migrations/0023-levels.ts';
import { SCHEMA_LEVEL } from '../postgres/migrations.ts';
import type { LockSession } from './lock-session.ts';

/** Description of a node for other nodes and operators. */
export interface NodeInfo {
  /** Host and port of its HTTP server. */
  address: string;
  /** Version of the program. */
  build: string;
  /** Those of this build by default. */
  levels?: BuildLevels;
}

/** What a build can use: `schema` is the newest migration that it knows, `data` the newest stored form of actors. */
export interface BuildLevels {
  schema: number;
  data: number;
}

export const buildLevels: BuildLevels = { schema: SCHEMA_LEVEL, data: DATA_LEVEL };

const existing = `select to_regclass('node_sessions') is not null as nodes,
  exists (select from pg_attribute where attrelid = to_regclass('nodes') and attname = 'state') as cluster,
  exists (select from pg_attribute where attrelid = to_regclass('nodes') and attname = 'renewed_at') as figures,
  exists (select from pg_trigger where tgrelid = to_regclass('shards') and tgname = 'keep_data_level') as levels`;

/** Pauses between attempts; the session must not be idle for longer than `LockTiming.idleSession`. */
const LOCK_PAUSES: BackoffLimits = { firstMs: 250, maxMs: 4_000 };

/**
 * Creates the tables of nodes and shards if they are missing: a node registers before any migration. `endUnrecorded`
 * terminates sessions of builds without these tables first: one of those builds may be about to create them.
 */
export async function ensureNodeTables(
  session: LockSession,
  endUnrecorded: () => Promise<void>,
  retry: LockRetry,
): Promise<void> {
  /** In one transaction; `before` has no limit for locks. */
  const change = async (part: string, sql: string, before = ''): Promise<void> => {
    const text = `${before} set local lock_timeout = ${SCHEMA_LOCK_TIMEOUT_MS}; ${sql}`;
    await retryWhileLocked(() => session.query(text), retry, LOCK_PAUSES, { part });
  };
  const [found] = (await session.query<Record<'nodes' | 'cluster' | 'figures' | 'levels', boolean>>(existing)).rows;
  if (!found?.nodes) {
    await endUnrecorded();
    await change('nodes', nodes);
  }
  if (!found?.cluster) await change('cluster', clusterNodes);
  if (!found?.figures) await change('figures', nodeFigures);
  if (!found?.levels) await change('levels', levels, `select pg_advisory_xact_lock(${MIGRATION_LOCK});`);
}
