import type { EpochMs, JsonObject, Uuid } from '../../domain/values.ts';
import { MAX_COMMAND_AGE_MS } from '../contract/commands.ts';
import type { CommandStore, Position } from '../contract.ts';
import { type ActorRow, actorColumns, contextField, storedActor } from './actors.ts';
import { actedStatuses, executingStatuses, openStatuses } from './command-statuses.ts';
import { type Database, idArray, type SqlValue } from './database.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';
import { inShards } from './shard-condition.ts';

/*
 * No column that every command changes is indexed, so that an update stays in its page (HOT). A command that is not
 * finished has a timer, because its machine never waits without a deadline: open, pending and watched commands are
 * found through the timers.
 */

/**
 * Commands with a timer that matches `timers` and, of these, those that match `condition`; with a `left` join there is
 * a row for each other timer as well. Reads one row by key per timer: see `deleteByKey`.
 */
const timed = (timers: string, condition: string, join: 'inner' | 'left' = 'inner'): string =>
  `(select distinct id from timers where ${timers}) t
    ${join} join lateral (select c.* from commands c where c.id = t.id and ${condition} offset 0) found on true`;

/** With a time as $2: the command was created by then, or its device ($1) is not active. */
const requestedBefore = `($2::bigint is null or created_at <= $2
  or not exists (select from devices d where d.id = $1 and not d.revoked))`;

/**
 * The device was reinstated after `time`: a key was created right after a revoked one. A rotation follows a revoked key
 * only if the old key was revoked later, so a command older than that key is older than the revocation as well.
 */
const reinstatedSince = (deviceId: string, time: string): string =>
  `exists (select from device_keys ended
    join device_keys made on made.device_id = ended.device_id and made.key_version = ended.key_version + 1
    where ended.device_id = ${deviceId} and ended.ended_as = 'revoked' and made.created_at > ${time})`;

interface WatchedRow {
  id: Uuid;
  device_id: Uuid;
  expected: JsonObject | null;
  seen: boolean;
}

const anyUuid = (parameter: string): string => `any(${parameter}::uuid[])`;
const asText = (parameter: string): string => parameter;

const REQUESTER = "context->'requestedBy'->>'id'";

/** The latest time at which the device of an ended command may have executed it. */
const LAST_EXECUTED_AT = `greatest(
  (${contextField('delivery')}->>'firstWrittenAt')::bigint, (${contextField('answer')}->>'timedOutAt')::bigint,
  case status when 'succeeded' then (${contextField('verification')}->>'checkedAt')::bigint
    - (${contextField('verification')}->>'withinMs')::bigint end)`;

const FIRST_ID: Uuid = '00000000-0000-0000-0000-000000000000';

type ListedRow = ActorRow & { created_at: EpochMs };

const position = (row: ListedRow) => ({ createdAt: row.created_at, id: row.id });

interface CommandLimits {
  /** Rows that one statement reads of all commands with a timer. */
  batchSize?: number;
  /** The most commands that one page of a list by status or requester, or of several devices, examines. */
  maxExamined?: number;
}

export function commandStore(
  database: Database,
  { batchSize = 10_000, maxExamined = 20_000 }: CommandLimits = {},
): CommandStore {
  const openOf = async (name: string, condition: string, values: SqlValue[]): Promise<Uuid[]> => {
    const rows = await database.read<{ id: Uuid }>({
      name,
      text: `select found.id from ${timed('open_at = $1', `status in ${condition}`)} order by created_at, found.id`,
      values,
    });
    return rows.map((row) => row.id);
  };

  return {
    async list(tenantId, deviceId, limit, after) {
      const statement: ListStatement = {
        name: 'commands_list',
        scope: { tenantId },
        text: `select ${actorColumns('command')} from commands
          where device_id = $1 and tenant_id = $2 and (created_at, id) < ($3, $4)
          order by created_at desc, id desc limit $5`,
        values: (after, rows) => [deviceId, tenantId, ...descendingStart(after), rows],
      };
      const page = await readPage(database, statement, { after, limit, of: (row: ListedRow) => row, position });
      return { ...page, items: page.items.map((row) => storedActor('command', row)) };
    },

    async listAll(tenantId, { deviceIds, status, requestedBy, from = 0, to }, limit, after) {
      const only = deviceIds?.length === 1 ? deviceIds[0] : undefined;
      const among = only === undefined ? deviceIds : undefined;
      // A list that ends at a time starts there, as after a page.
      const first: Position | undefined = to === undefined ? undefined : { createdAt: to, id: FIRST_ID };
      const start = (after: Position | undefined) => [tenantId, ...descendingStart(after ?? first)];
      const fixed: SqlValue[] = [from, ...(only === undefined ? [] : [only])];
      // The indexes of the tenant and of the device have the order of the list.
      const where = `from commands where tenant_id = $1 and (created_at, id) < ($2, $3) and created_at >= $5
        ${only === undefined ? '' : 'and device_id = $6'} order by created_at desc, id desc`;
      const filters = [
        ...(status === undefined ? [] : [{ column: 'status', value: status, operator: asText }]),
        ...(requestedBy === undefined ? [] : [{ column: REQUESTER, value: requestedBy, operator: asText }]),
        ...(among === undefined ? [] : [{ column: 'device_id', value: idArray(among), operator: anyUuid }]),
      ];
      const conditions = filters.map(
        ({ column, operator }, n) => `${column} = ${operator(`$${5 + fixed.length + n}`)}`,
      );
      const place = only === undefined ? '' : '_of_device';
      const kind = [status && '_status', requestedBy && '_by', among && '_among'].map((part) => part ?? '').join('');
      const columns = actorColumns('command');
      const isFiltered = conditions.length > 0;
      const statement: ListStatement = {
        name: `commands_all${place}${kind}`,
        scope: { tenantId },
        text: isFiltered
          ? `select ${columns} from (select ${columns}, status ${where} limit ${maxExamined}) seen
              where ${conditions.join(' and ')} order by created_at desc, id desc limit $4`
          : `select ${columns} ${where} limit $4`,
        values: (after, rows) => [...start(after), rows, ...fixed, ...filters.map(({ value }) => value)],
      };
      const page = await readPage(database, statement, { after, limit, of: (row: ListedRow) => row, position });
      const listed = { ...page, items: page.items.map((row) => storedActor('command', row)) };
      if (!isFiltered) return listed;
      if (page.next !== null) return { ...listed, count: async () => null };
      const [edge] = await database.read<Pick<ListedRow, 'created_at' | 'id'>>({
        name: `commands_all${place}_edge`,
        scope: { tenantId },
        text: `select created_at, id ${where} offset $4 limit 1`,
        values: [...start(after), maxExamined - 1, ...fixed],
      });
      const next = edge === undefined ? null : { createdAt: edge.created_at, id: edge.id };
      return after === undefined && next === null ? listed : { ...listed, next, count: async () => null };
    },

    // Reads the commands of each device by its index: see `timed`.
    async devicesWithUnreportedCommands(tenantId, devices) {
      const rows = await database.read<{ id: Uuid }>({
        name: 'commands_unreported',
        scope: { tenantId },
        text: `select d.id from unnest($2::uuid[], $3::bigint[]) as d(id, reported_at)
          join lateral (select from commands c
            where c.device_id = d.id and c.created_at >= d.reported_at - ${MAX_COMMAND_AGE_MS} and c.tenant_id = $1
              and c.status in ${actedStatuses} and c.verification <> 'verified'
              and (c.verification = 'pending' or c.status in ${executingStatuses}
                or c.created_at >= d.reported_at or ${LAST_EXECUTED_AT} >= d.reported_at)
            limit 1 offset 0) c on true`,
        values: [
          ...[tenantId, idArray(devices.map(({ deviceId }) => deviceId))],
          `{${devices.map(({ at }) => at).join(',')}}`,
        ],
      });
      return new Set(rows.map(({ id }) => id));
    },

    async byToken(tenantId, deviceId, tokenHash) {
      const [row] = await database.read<{ id: Uuid; device_id: Uuid }>({
        name: 'commands_by_token',
        scope: { tenantId },
        text: `select id, device_id from commands
          where token_hash = $1 and tenant_id = $2 and device_id = coalesce($3::uuid, device_id)`,
        values: [tokenHash, tenantId, deviceId],
      });
      return row === undefined ? null : { id: row.id, deviceId: row.device_id };
    },

    // The confirmation's timer may fire a little after its deadline. A waiting command always has a token, so the
    // partial index applies.
    async awaitingConfirmation(tenantId, { now, dryRuns, deviceIds }, limit, after) {
      const statement: ListStatement = {
        name: deviceIds === undefined ? 'commands_awaiting' : 'commands_awaiting_among',
        scope: { tenantId },
        text: `select ${actorColumns('command')} from commands
          where tenant_id = $1 and token_hash is not null and status = 'awaiting_confirmation' and (created_at, id) < ($2, $3)
            and (context->'confirmation'->>'expiresAt')::bigint > $4
            and coalesce((context->'confirmation'->>'asked')::boolean, false) = $6
            ${deviceIds === undefined ? '' : 'and device_id = any($7::uuid[])'}
          order by created_at desc, id desc limit $5`,
        values: (after, rows) => [
          ...[tenantId, ...descendingStart(after), now, rows, dryRuns],
          ...(deviceIds === undefined ? [] : [idArray(deviceIds)]),
        ],
      };
      const page = await readPage(database, statement, { after, limit, of: (row: ListedRow) => row, position });
      return { ...page, items: page.items.map((row) => storedActor('command', row)) };
    },

    // A critical command is written at most once.
    deliverable: (deviceId) =>
      openOf(
        'commands_pending',
        `${executingStatuses} and not (critical and written) and not ${reinstatedSince('$1', 'c.created_at')}`,
        [deviceId],
      ),
    // One snapshot for both tables: commands that it shows for a revoked device are older than any later reinstatement.
    open: (deviceId, revokedAt) =>
      openOf('commands_open', `${openStatuses} and ${requestedBefore}`, [deviceId, revokedAt ?? null]),

    async openOnRevokedDevices(shards) {
      const { suffix, condition, values } = inShards(shards, 'shard', 3);
      const found: Awaited<ReturnType<CommandStore['openOnRevokedDevices']>> = [];
      for (let after = FIRST_ID, more = true; more; ) {
        const rows = await database.read<{ id: Uuid; device_id: Uuid | null }>({
          name: `commands_open_of_revoked${suffix}`,
          text: `select t.id, revoked.id as device_id
            from ${timed(
              `kind = 'command' and open_at is not null and id > $1${condition} order by id limit $2`,
              `status in ${openStatuses}`,
              'left',
            )}
              left join lateral (select d.id from devices d where d.id = found.device_id
                and (d.revoked or ${reinstatedSince('d.id', 'found.created_at')}) offset 0) revoked on true
            order by t.id`,
          values: [after, batchSize, ...values],
        });
        for (const { id: commandId, device_id: deviceId } of rows)
          if (deviceId !== null) found.push({ deviceId, commandId });
        after = rows.at(-1)?.id ?? after;
        more = rows.length === batchSize;
      }
      return found;
    },

    // Reads all commands with a timer, which may be many, in batches, so that each statement is short.
    async awaitingVerification(shards) {
      const { suffix, condition, values } = inShards(shards, 'shard', 3);
      const watched: Awaited<ReturnType<CommandStore['awaitingVerification']>> = [];
      for (let after = FIRST_ID, more = true; more; ) {
        const rows = await database.read<WatchedRow>({
          name: `commands_watching${suffix}`,
          text: `select t.id, device_id, about->'expected' as expected, about->>'observed' is not null as seen
            from ${timed(`kind = 'command' and id > $1${condition} order by id limit $2`, "verification = 'pending'", 'left')}
              left join lateral (select ${contextField('verification')} as about) verified on true
            order by t.id`,
          values: [after, batchSize, ...values],
        });
        for (const { id: commandId, device_id: deviceId, expected, seen } of rows) {
          if (expected !== null) watched.push({ deviceId, commandId, expected, seen });
        }
        after = rows.at(-1)?.id ?? after;
        more = rows.length === batchSize;
      }
      return watched;
    },
  };
}
