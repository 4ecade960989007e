import { DATA_LEVEL } from '../../domain/data-level.ts';
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

/**
 * Creates the tables of nodes and shards if they are missing: a node registers before any migration. `endUnrecorded`
 * terminates sessions of builds without these tables first: one of those builds may be about to create them.
 */
export async function ensureNodeTables(session: LockSession, endUnrecorded: () => Promise<void>): Promise<void> {
  const [found] = (await session.query<Record<'nodes' | 'cluster' | 'figures' | 'levels', boolean>>(existing)).rows;
  if (!found?.nodes) {
    await endUnrecorded();
    await session.query(nodes);
  }
  if (!found?.cluster) await session.query(clusterNodes);
  if (!found?.figures) await session.query(nodeFigures);
  if (!found?.levels) await session.query(`select pg_advisory_xact_lock(${MIGRATION_LOCK}); ${levels}`);
}
