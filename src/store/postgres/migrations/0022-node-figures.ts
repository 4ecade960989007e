/**
 * `figures`: load of the node and its moves of shards, as JSON; null until the node has published them. `renewed_at`:
 * when its lease was renewed, published with them. A node publishes them before any migration, so the lock runs this
 * too, and every statement is repeatable.
 */
export const nodeFigures = `
alter table nodes add column if not exists figures json;
alter table nodes add column if not exists renewed_at timestamptz;
`;
