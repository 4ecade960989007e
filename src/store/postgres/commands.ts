import type { EpochMs, JsonObject, Uuid } from '../../domain/values.ts';
import type { CommandStore } from '../contract.ts';
import { type ActorRow, actorColumns, memberOf, storedActor } from './actors.ts';
import type { Database } from './database.ts';
import { beginning, pageOf } from './pages.ts';

/** Literals, as the partial index `commands_open` needs them. A command that timed out only waits for a late word. */
const notFinal = `('submitted', 'awaiting_confirmation', 'dispatched', 'acknowledged', 'in_progress')`;
const dispatched = `('dispatched', 'acknowledged', 'in_progress')`;

interface WatchedRow {
  id: Uuid;
  device_id: Uuid;
  expected: JsonObject;
  seen: boolean;
}

export function commandStore(database: Database): CommandStore {
  const ofDevice = async (name: string, condition: string, deviceId: Uuid): Promise<Uuid[]> => {
    const rows = await database.read<{ id: Uuid }>({
      name,
      text: `select id from commands where device_id = $1 and ${condition} order by created_at, id`,
      values: [deviceId],
    });
    return rows.map((row) => row.id);
  };

  return {
    async list(tenantId, deviceId, limit, after) {
      const rows = await database.read<ActorRow & { created_at: EpochMs }>({
        name: 'commands_list',
        text: `select ${actorColumns}, created_at from commands
          where device_id = $1 and tenant_id = $2 and (created_at, id) < ($3, $4)
          order by created_at desc, id desc limit $5`,
        values: [deviceId, tenantId, ...beginning(after), limit + 1],
      });
      const page = pageOf(rows, limit, (row) => ({ createdAt: row.created_at, id: row.id }));
      return { ...page, items: page.items.map((row) => storedActor('command', row)) };
    },

    async byToken(tenantId, deviceId, tokenHash) {
      const [row] = await database.read<{ id: Uuid; device_id: Uuid }>({
        name: 'commands_by_token',
        text: `select id, device_id from commands
          where token_hash = $1 and tenant_id = $2 and device_id = coalesce($3::uuid, device_id)`,
        values: [tokenHash, tenantId, deviceId],
      });
      return row === undefined ? null : { id: row.id, deviceId: row.device_id };
    },

    // The timer that ends a confirmation may come a moment after its deadline.
    async awaiting(tenantId, now, limit, after) {
      const rows = await database.read<ActorRow & { created_at: EpochMs }>({
        name: 'commands_awaiting',
        text: `select ${actorColumns}, created_at from commands
          where tenant_id = $1 and status = 'awaiting_confirmation' and (created_at, id) < ($2, $3)
            and (context->'confirmation'->>'expiresAt')::bigint > $4
          order by created_at desc, id desc limit $5`,
        values: [tenantId, ...beginning(after), now, limit + 1],
      });
      const page = pageOf(rows, limit, (row) => ({ createdAt: row.created_at, id: row.id }));
      return { ...page, items: page.items.map((row) => storedActor('command', row)) };
    },

    // A critical command is written once, ever.
    pending: (deviceId) =>
      ofDevice('commands_pending', `status in ${dispatched} and not (critical and written)`, deviceId),
    open: (deviceId) => ofDevice('commands_open', `status in ${notFinal}`, deviceId),

    async watching() {
      const rows = await database.read<WatchedRow>({
        name: 'commands_watching',
        text: `select id, device_id, about->'expected' as expected, about->>'observed' is not null as seen
          from commands cross join lateral (select ${memberOf('verification')} as about) verified
          where verification = 'pending' and about->>'expected' is not null order by id`,
      });
      return rows.map(({ id: commandId, device_id: deviceId, expected, seen }) => ({
        deviceId,
        commandId,
        expected,
        seen,
      }));
    },
  };
}
