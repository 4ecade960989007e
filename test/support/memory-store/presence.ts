import { mergeConnectionEvents } from '../../../src/domain/connection-event.ts';
import type { PresenceFlush } from '../../../src/store/contract.ts';
import { bigint, double, nullable, refuse, rowOf, uuid } from './columns.ts';
import type { PresenceRow, Tables } from './database.ts';

const columns = { deviceId: uuid, lastSeen: bigint, battery: nullable(double), refusals: bigint };

/** A flush may contain a device only once: PostgreSQL rejects a statement that changes a row twice. */
export function flushPresence(tables: Tables, rows: readonly PresenceFlush[]): void {
  const seen = new Set<string>();
  for (const flushed of rows) {
    const row = rowOf<Omit<PresenceRow, 'telemetry'>>(columns, { ...flushed, refusals: flushed.refusals ?? 0 });
    const { deviceId } = row;
    if (seen.has(deviceId)) refuse('21000', 'ON CONFLICT DO UPDATE command cannot affect row a second time');
    seen.add(deviceId);
    const before = tables.presence.get(deviceId);
    tables.presence.set(deviceId, {
      deviceId,
      lastSeen: Math.max(before?.lastSeen ?? row.lastSeen, row.lastSeen),
      battery: row.battery ?? before?.battery ?? null,
      telemetry: flushed.telemetry ? { ...before?.telemetry, ...flushed.telemetry } : (before?.telemetry ?? null),
      refusals: (before?.refusals ?? 0) + row.refusals,
    });
    if (flushed.connections) {
      const known = tables.deviceConnections.get(deviceId) ?? [];
      tables.deviceConnections.set(deviceId, mergeConnectionEvents(flushed.connections, known));
    }
    markKeysUsed(tables, flushed);
  }
}

function markKeysUsed(tables: Tables, { deviceId, keys = [] }: PresenceFlush): void {
  const known = tables.deviceKeys.get(deviceId);
  if (known === undefined || keys.length === 0) return;
  const used = new Map(keys.map(({ version, usedAt }) => [version, usedAt]));
  const after = known.map((key) => {
    const usedAt = used.get(key.keyVersion) ?? 0;
    return usedAt > (key.lastUsedAt ?? 0) ? { ...key, lastUsedAt: usedAt } : key;
  });
  tables.deviceKeys.set(deviceId, after);
}
