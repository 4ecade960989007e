/** Telemetry of each device, with its last activity; null for devices that have reported none since the migration. */
export const deviceTelemetryMigration = `
alter table presence add column telemetry jsonb;
`;
