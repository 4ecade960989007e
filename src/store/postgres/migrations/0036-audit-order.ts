import type { MigrationIndex } from '../concurrent-indexes.ts';

/** The order of audited entries (migration 27), in which they are sealed and verified. They have no entry when they are made. */
export const auditOrder: readonly MigrationIndex[] = [
  { name: 'audit_in_order', on: 'audit (tenant_id, position) where position is not null' },
  {
    name: 'journal_in_order',
    on: "journal (tenant_id, position) where position is not null and by->>'kind' = 'user'",
  },
];
