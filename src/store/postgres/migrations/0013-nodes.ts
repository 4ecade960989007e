/**
 * Nodes, the shards that they own, and the server sessions that they opened. The active lock runs this before any
 * migration, because a takeover raises the epoch before it loads anything; the migration itself then has no effect. So
 * every statement here must be repeatable, and a later change to these tables must be possible in the same way.
 *
 * `nodes.epoch` is raised by the node that takes over the shards of this one: a node whose epoch differs from the one
 * it registered with has lost its right to write. `shards.epoch` counts the owners of a shard. `node_sessions`
 * identifies a session by pid and start time, as pids are reused; `role` is for roles that cannot see the start time of
 * another role's sessions.
 */
export const nodes = `
create table if not exists nodes (
  id uuid primary key,
  epoch bigint not null,
  address text not null,
  build text not null,
  started_at timestamptz not null
);

create table if not exists shards (
  shard integer primary key,
  owner uuid not null,
  epoch bigint not null
);

create table if not exists node_sessions (
  pid integer primary key,
  node uuid not null,
  epoch bigint not null,
  role text not null,
  started_at timestamptz not null
);
`;
