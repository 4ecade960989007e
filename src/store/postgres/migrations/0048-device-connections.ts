/**
 * The latest connection events of each device, newest first. Not in `presence`, whose rows are written with each heartbeat.
 * Without a tenant and without a policy, so that the role of tenants has no privilege for it.
 */
export const deviceConnectionsMigration = `
create table device_connections (
  device_id uuid primary key,
  events jsonb not null
) with (fillfactor = 50);
`;
