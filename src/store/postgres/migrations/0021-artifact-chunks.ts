/**
 * `artifact_chunks`: contents of artifacts that are stored in the database. `start` is the position of the chunk's first
 * byte; chunks of one artifact are adjacent, and may have different lengths. `external` stores them uncompressed, so
 * that a part is read without the rest; firmware is usually compressed already. `artifacts.bytes`: size, null until the
 * content is complete, and for an artifact that is a file.
 */
export const artifactChunks = `
alter table artifacts add column bytes bigint;
create table artifact_chunks (
  artifact uuid not null references artifacts on delete cascade,
  start bigint not null,
  bytes bytea not null,
  primary key (artifact, start)
);
alter table artifact_chunks alter column bytes set storage external;
`;
