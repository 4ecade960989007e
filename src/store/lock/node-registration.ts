import { nodes } from '../postgres/migrations/0013-nodes.ts';
import { clusterNodes } from '../postgres/migrations/0019-shards.ts';
import { nodeFigures } from '../postgres/migrations/0022-node-figures.ts';
import type { LockSession } from './lock-session.ts';

/** Description of a node for other nodes and operators. */
export interface NodeInfo {
  /** Host and port of its HTTP server. */
  address: string;
  /** Version of the program. */
  build: string;
}

/** Epoch that nodes register with; the node that takes over raises it once. */
export const FIRST_NODE_EPOCH = 1;

const existing = `select to_regclass('node_sessions') is not null as nodes,
  exists (select from pg_attribute where attrelid = to_regclass('nodes') and attname = 'state') as cluster,
  exists (select from pg_attribute where attrelid = to_regclass('nodes') and attname = 'renewed_at') as figures`;

/**
 * Creates the tables of nodes and shards if they are missing: a node registers before any migration. `endUnrecorded`
 * terminates sessions of builds without these tables first: one of those builds may be about to create them.
 */
export async function ensureNodeTables(session: LockSession, endUnrecorded: () => Promise<void>): Promise<void> {
  const [found] = (await session.query<{ nodes: boolean; cluster: boolean; figures: boolean }>(existing)).rows;
  if (!found?.nodes) {
    await endUnrecorded();
    await session.query(nodes);
  }
  if (!found?.cluster) await session.query(clusterNodes);
  if (!found?.figures) await session.query(nodeFigures);
}
