import { type CommandStatus, mayActOrHaveActed } from '../../../src/domain/command.ts';
import type { EpochMs, Json, JsonObject, Milliseconds, Uuid } from '../../../src/domain/values.ts';
import { type LastReport, MAX_COMMAND_AGE_MS } from '../../../src/store/contract/commands.ts';
import type { CommandStore, Position } from '../../../src/store/contract.ts';
import { isInShards, storedActor } from './actors.ts';
import { type ActorRow, actorKey, type Tables } from './database.ts';
import { mapPage, newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const dispatched = new Set<Json>(['dispatched', 'acknowledged', 'in_progress']);
const open = new Set<Json>(['submitted', 'awaiting_confirmation', ...dispatched]);

export const positionOf = (row: ActorRow): Position => ({
  createdAt: row.columns.created_at as EpochMs,
  id: row.ref.id,
});

const byAge = (a: ActorRow, b: ActorRow): number => {
  const [one, other] = [positionOf(a), positionOf(b)];
  return one.createdAt - other.createdAt || (one.id < other.id ? -1 : 1);
};

export const actorsOf = (tables: Tables, kind: string, fits: (row: ActorRow) => boolean): ActorRow[] =>
  tables.actors.where((row) => row.ref.kind === kind && fits(row));

export const oldestIds = (rows: ActorRow[]): Uuid[] => rows.sort(byAge).map(({ ref }) => ref.id);

/** Commands with a matching timer: a command that is not finished has a deadline. */
function timed(tables: Tables, matches: (timer: { openAt?: Uuid | null }) => boolean): ActorRow[] {
  const keys = new Set<string>();
  for (const timer of tables.timers.values()) {
    if (timer.ref.kind === 'command' && matches(timer)) keys.add(actorKey(timer.ref));
  }
  return [...keys].flatMap((key) => tables.actors.get(key) ?? []);
}

const openAt = (tables: Tables, deviceId: Uuid, fits: (columns: JsonObject) => boolean): Uuid[] =>
  oldestIds(timed(tables, (timer) => timer.openAt === deviceId).filter(({ columns }) => fits(columns)));

const deviceOf = (tables: Tables, id: Uuid): ActorRow | undefined =>
  tables.actors.get(actorKey({ kind: 'device', id }));

/** True if a key that was created after `time` followed a revoked one. */
function reinstatedSince(tables: Tables, deviceId: Uuid, time: EpochMs): boolean {
  const keys = tables.deviceKeys.get(deviceId) ?? [];
  const revoked = new Set(keys.filter(({ endedAs }) => endedAs === 'revoked').map(({ keyVersion }) => keyVersion));
  return keys.some(({ keyVersion, createdAt }) => createdAt > time && revoked.has(keyVersion - 1));
}

interface Executed {
  delivery?: { firstWrittenAt?: EpochMs | null } | null;
  answer?: { timedOutAt?: EpochMs | null };
  verification?: { checkedAt?: EpochMs | null; withinMs?: Milliseconds };
}

function lastExecutedAt(status: CommandStatus, { delivery, answer, verification }: Executed): EpochMs {
  const { checkedAt, withinMs } = verification ?? {};
  const isKnown = status === 'succeeded' && checkedAt != null && withinMs !== undefined;
  return Math.max(delivery?.firstWrittenAt ?? 0, answer?.timedOutAt ?? 0, isKnown ? checkedAt - withinMs : 0);
}

interface Watched {
  expected?: JsonObject | null;
  observed?: Json;
}

export const commandStore = (session: Session): CommandStore => ({
  list: (tenantId, deviceId, limit, after) =>
    session.read('commands.list', [tenantId, deviceId, limit, after], (tables, tenantId, deviceId, limit, after) => {
      const rows = actorsOf(
        tables,
        'command',
        (row) => row.tenantId === tenantId && row.columns.device_id === deviceId,
      );
      return mapPage(newestFirst(rows, positionOf, limit, after), storedActor);
    }),

  listAll: (tenantId, filter, limit, after) =>
    session.read('commands.listAll', [tenantId, filter, limit, after], (tables, tenantId, filter, limit, after) => {
      const { deviceIds, status, requestedBy, from = 0, to = Number.POSITIVE_INFINITY } = filter;
      const rows = actorsOf(tables, 'command', ({ tenantId: of, columns, context }) => {
        const isAmong = deviceIds === undefined || deviceIds.includes(columns.device_id as Uuid);
        const hasStatus = status === undefined || columns.status === status;
        const requester = (context as { requestedBy?: { id: string } }).requestedBy?.id;
        const isRequester = requestedBy === undefined || requester === requestedBy;
        const createdAt = columns.created_at as EpochMs;
        return of === tenantId && isAmong && hasStatus && isRequester && createdAt >= from && createdAt < to;
      });
      const page = mapPage(newestFirst(rows, positionOf, limit, after), storedActor);
      // The database examines a limited number of commands for these filters.
      const isSelective =
        status !== undefined || requestedBy !== undefined || (deviceIds !== undefined && deviceIds.length !== 1);
      const isCounted = !isSelective || (after === undefined && page.next === null);
      return isCounted ? page : { ...page, count: async () => null };
    }),

  devicesWithUnreportedCommands: (tenantId, devices) =>
    session.read('commands.devicesWithUnreportedCommands', [tenantId, devices], (tables, tenantId, devices) => {
      const commands = actorsOf(tables, 'command', (row) => row.tenantId === tenantId);
      const isUnreported = ({ deviceId, at }: LastReport): boolean =>
        commands.some(({ columns, context }) => {
          const [createdAt, status, verification] = [
            columns.created_at as EpochMs,
            columns.status as CommandStatus,
            columns.verification,
          ];
          if (columns.device_id !== deviceId || createdAt < at - MAX_COMMAND_AGE_MS) return false;
          if (!mayActOrHaveActed(status) || verification === 'verified') return false;
          if (verification === 'pending' || dispatched.has(status)) return true;
          return createdAt >= at || lastExecutedAt(status, context as Executed) >= at;
        });
      return new Set(devices.filter(isUnreported).map(({ deviceId }) => deviceId));
    }),

  byToken: (tenantId, deviceId, tokenHash) =>
    session.read('commands.byToken', [tenantId, deviceId, tokenHash], (tables, tenantId, deviceId, tokenHash) => {
      const [row] = actorsOf(
        tables,
        'command',
        ({ tenantId: of, columns }) =>
          of === tenantId && columns.token_hash === tokenHash && (deviceId === null || columns.device_id === deviceId),
      );
      return row === undefined ? null : { id: row.ref.id, deviceId: row.columns.device_id as Uuid };
    }),

  awaitingConfirmation: (tenantId, filter, limit, after) =>
    session.read(
      'commands.awaiting',
      [tenantId, filter, limit, after],
      (tables, tenantId, { now, dryRuns, deviceIds }, limit, after) => {
        const rows = actorsOf(tables, 'command', ({ tenantId: of, columns, context }) => {
          const confirmation = context.confirmation as { expiresAt?: EpochMs; asked?: boolean } | null | undefined;
          const { expiresAt = 0, asked = false } = confirmation ?? {};
          const isWaiting = columns.status === 'awaiting_confirmation' && (columns.token_hash ?? null) !== null;
          const isAmong = deviceIds === undefined || deviceIds.includes(columns.device_id as Uuid);
          return of === tenantId && isWaiting && expiresAt > now && asked === dryRuns && isAmong;
        });
        return mapPage(newestFirst(rows, positionOf, limit, after), storedActor);
      },
    ),

  deliverable: (deviceId) =>
    session.read('commands.pending', [deviceId], (tables, deviceId) =>
      openAt(
        tables,
        deviceId,
        ({ status = null, critical, written, created_at }) =>
          dispatched.has(status) && !(critical && written) && !reinstatedSince(tables, deviceId, created_at as EpochMs),
      ),
    ),

  open: (deviceId, revokedAt) =>
    session.read('commands.open', [deviceId, revokedAt], (tables, deviceId, revokedAt) => {
      const isActive = deviceOf(tables, deviceId)?.columns.revoked === false;
      return openAt(
        tables,
        deviceId,
        ({ status = null, created_at }) =>
          open.has(status) && (revokedAt === undefined || !isActive || (created_at as EpochMs) <= revokedAt),
      );
    }),

  openOnRevokedDevices: (shards) =>
    session.read('commands.openOfRevoked', [shards], (tables, shards) =>
      timed(tables, ({ openAt = null }) => openAt !== null)
        .filter(({ columns: { status = null }, tenantId }) => open.has(status) && isInShards(shards, tenantId))
        .filter(({ columns: { device_id: id, created_at: time } }) => {
          const device = deviceOf(tables, id as Uuid);
          if (device === undefined) return false;
          return device.columns.revoked === true || reinstatedSince(tables, id as Uuid, time as EpochMs);
        })
        .map(({ ref, columns }) => ({ deviceId: columns.device_id as Uuid, commandId: ref.id }))
        .sort((a, b) => (a.commandId < b.commandId ? -1 : 1)),
    ),

  awaitingVerification: (shards) =>
    session.read('commands.watching', [shards], (tables, shards) =>
      timed(tables, () => true)
        .filter(({ columns, tenantId }) => columns.verification === 'pending' && isInShards(shards, tenantId))
        .sort((a, b) => (a.ref.id < b.ref.id ? -1 : 1))
        .flatMap(({ ref, columns, context }) => {
          const { expected = null, observed = null } = (context.verification ?? {}) as Watched;
          if (expected === null) return [];
          return [{ deviceId: columns.device_id as Uuid, commandId: ref.id, expected, seen: observed !== null }];
        }),
    ),
});
