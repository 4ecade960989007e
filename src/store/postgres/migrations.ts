import type { MigrationIndex } from './concurrent-indexes.ts';
import { ground } from './migrations/0001-ground.ts';
import { confirmations } from './migrations/0002-confirmations.ts';
import { firmware } from './migrations/0003-firmware.ts';
import { people } from './migrations/0004-people.ts';
import { audit } from './migrations/0005-audit.ts';
import { memories } from './migrations/0006-memories.ts';
import { plans } from './migrations/0007-plans.ts';
import { cognition } from './migrations/0008-cognition.ts';
import { liveContext } from './migrations/0009-live-context.ts';
import { inPlace } from './migrations/0010-in-place.ts';
import { statistics } from './migrations/0011-statistics.ts';
import { fieldsInColumns } from './migrations/0012-fields-in-columns.ts';
import { nodes } from './migrations/0013-nodes.ts';
import { clock } from './migrations/0017-clock.ts';
import { liveColumn } from './migrations/0018-live-column.ts';
import { shardColumns } from './migrations/0019-shards.ts';
import { cache } from './migrations/0020-cache.ts';
import { artifactChunks } from './migrations/0021-artifact-chunks.ts';
import { nodeFigures } from './migrations/0022-node-figures.ts';
import { levels } from './migrations/0023-levels.ts';
import { changeRequests } from './migrations/0024-change-requests.ts';
import { userSessions } from './migrations/0025-user-sessions.ts';
import { subKeys } from './migrations/0026-sub-keys.ts';
import { auditChain } from './migrations/0027-audit-chain.ts';
import { firmwareSigning } from './migrations/0028-firmware-signing.ts';
import { firmwareReleasers } from './migrations/0029-firmware-releasers.ts';
import { memoryWritersMigration } from './migrations/0030-memory-writers.ts';
import { keyRestrictionsMigration } from './migrations/0031-key-restrictions.ts';
import { deviceCasMigration } from './migrations/0032-device-cas.ts';
import { rowSecurity } from './migrations/0034-row-security.ts';
import { auditOrder } from './migrations/0036-audit-order.ts';
import { unboundSubjects } from './migrations/0041-unbound-subjects.ts';
import { keyGraceMigration } from './migrations/0045-key-grace.ts';
import { deviceTags } from './migrations/0046-device-tags.ts';
import { deviceTelemetryMigration } from './migrations/0047-device-telemetry.ts';
import { deviceConnectionsMigration } from './migrations/0048-device-connections.ts';
import { agentTokenUsers } from './migrations/0053-agent-token-users.ts';
import { historyMigration } from './migrations/0054-history.ts';
import { manifestPropertiesMigration } from './migrations/0055-manifest-properties.ts';
import { dashboardsMigration } from './migrations/0060-dashboards.ts';
import { historyImportsMigration } from './migrations/0061-history-imports.ts';

export interface Migration {
  id: number;
  name: string;
  /** Empty in a migration that has only `indexes`. */
  sql: string;
  /** Made while other sessions read and write the tables; instead of `sql`, because that is not possible in a transaction. */
  indexes?: readonly MigrationIndex[];
  /**
   * `expand`: builds that do not know it run beside it. `contract`: they do not, so it is applied when none of their nodes
   * is alive, and until then builds that know it run without it.
   */
  change: 'expand' | 'contract';
  /** Of a contract: the oldest schema level whose builds run after it, which is the id of a migration. Default: its own id. */
  oldestLevel?: number;
}

/** As long as it waits, values are sealed with the master key itself. */
export const SUB_KEYS_MIGRATION = 26;

/**
 * In order, for PostgreSQL 14 and later and for PGlite. A released migration is never changed; add a new one instead.
 * Databases contain the ids and the names.
 */
export const migrations: readonly Migration[] = [
  { id: 1, name: 'ground', sql: ground, change: 'contract' },
  { id: 2, name: 'confirmations', sql: confirmations, change: 'contract' },
  { id: 3, name: 'firmware', sql: firmware, change: 'contract' },
  { id: 4, name: 'people', sql: people, change: 'contract' },
  { id: 5, name: 'audit', sql: audit, change: 'contract' },
  { id: 6, name: 'memories', sql: memories, change: 'contract' },
  { id: 7, name: 'plans', sql: plans, change: 'contract' },
  { id: 8, name: 'cognition', sql: cognition, change: 'contract' },
  { id: 9, name: 'moving', sql: liveContext, change: 'contract' },
  { id: 10, name: 'in place', sql: inPlace, change: 'contract' },
  { id: 11, name: 'statistics', sql: statistics, change: 'contract' },
  { id: 12, name: 'said once', sql: fieldsInColumns, change: 'contract' },
  { id: 13, name: 'nodes', sql: nodes, change: 'contract' },
  // 14 to 16, 33 and 35 were never released.
  { id: 17, name: 'clock', sql: clock, change: 'contract' },
  { id: 18, name: 'live column', sql: liveColumn, change: 'contract' },
  { id: 19, name: 'shards', sql: shardColumns, change: 'contract' },
  { id: 20, name: 'cache', sql: cache, change: 'contract' },
  { id: 21, name: 'artifact chunks', sql: artifactChunks, change: 'contract' },
  { id: 22, name: 'node figures', sql: nodeFigures, change: 'contract' },
  { id: 23, name: 'levels', sql: levels, change: 'expand' },
  { id: 24, name: 'change requests', sql: changeRequests, change: 'expand' },
  { id: 25, name: 'user sessions', sql: userSessions, change: 'expand' },
  { id: SUB_KEYS_MIGRATION, name: 'sub-keys', sql: subKeys, change: 'contract' },
  { id: 27, name: 'audit chain', sql: auditChain, change: 'expand' },
  { id: 28, name: 'firmware signing', sql: firmwareSigning, change: 'expand' },
  { id: 29, name: 'firmware releasers', sql: firmwareReleasers, change: 'expand' },
  { id: 30, name: 'memory writers', sql: memoryWritersMigration, change: 'expand' },
  { id: 31, name: 'key restrictions', sql: keyRestrictionsMigration, change: 'expand' },
  { id: 32, name: 'device certificate authorities', sql: deviceCasMigration, change: 'expand' },
  { id: 34, name: 'row security', sql: rowSecurity, change: 'expand' },
  { id: 36, name: 'audit order', sql: '', indexes: auditOrder, change: 'expand' },
  // 37 to 40 and 42 to 44 were never released.
  { id: 41, name: 'unbound subjects', sql: unboundSubjects, change: 'expand' },
  { id: 45, name: 'key grace', sql: keyGraceMigration, change: 'expand' },
  { id: 46, name: 'device tags', sql: deviceTags, change: 'expand' },
  { id: 47, name: 'device telemetry', sql: deviceTelemetryMigration, change: 'expand' },
  { id: 48, name: 'device connections', sql: deviceConnectionsMigration, change: 'expand' },
  { id: 53, name: 'agent token users', sql: agentTokenUsers, change: 'expand' },
  { id: 54, name: 'history', sql: historyMigration, change: 'expand' },
  { id: 55, name: 'manifest properties', sql: manifestPropertiesMigration, change: 'expand' },
  { id: 60, name: 'dashboards', sql: dashboardsMigration, change: 'expand' },
  { id: 61, name: 'history imports', sql: historyImportsMigration, change: 'expand' },
];

/** The newest migration that this build knows. */
export const SCHEMA_LEVEL: number = schemaLevelOf(migrations);

export function schemaLevelOf(known: readonly Migration[]): number {
  // Ids may have gaps.
  return Math.max(0, ...known.map(({ id }) => id));
}
