/**
 * When reports were last imported for a device: until they are compacted they are read for ranges that end before it. Null:
 * never, or by an earlier build.
 */
export const historyImportsMigration = 'alter table history_positions add column imported_at bigint';
