/**
 * `memories.written_by` has the credential that wrote a memory, null in rows of builds that do not know it; `adopted_by`
 * the last person who adopted it. `proposals.memories` has the memories that shaped the steps; null in rows of builds that
 * do not know it, and without any.
 */
export const memoryWritersMigration = `
alter table memories add column written_by jsonb;
alter table memories add column adopted_by jsonb;
alter table proposals add column memories jsonb;
`;
