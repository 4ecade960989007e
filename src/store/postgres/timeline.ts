import type { Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import { type EntryPosition, newestFirst } from '../contract/entry-page.ts';
import {
  commandGroups,
  decisionEdge,
  examinedDecisionsOfEach,
  examinedOfEach,
  LATEST_DECISION_MS,
  middleOf,
  REPORT_ENTRY_MS,
  type TimelineRange,
  type TimelineStore,
} from '../contract/timeline.ts';
import {
  type ActorRow,
  actorColumns,
  type JournalColumns,
  journalColumns,
  journalEntry,
  storedActor,
} from './actors.ts';
import { type Database, idArray, type SqlValue } from './database.ts';

/*
 * Each statement reads one range of the index of commands by device and time of the request. Decisions on confirmations
 * are found in the journal by the command's id.
 */

/** The group of a command; its plan is in the part of the context that never changes. */
const group = `case when status = 'rejected' then 'refusal' when context #>> '{origin,plan,id}' is not null then 'plan' else 'command' end`;

/** False for commands that cannot have waited for a confirmation, which are most: no journal is read for them. */
const mayHaveWaited = `(critical or status in ('cancelled', 'expired') or context #>> '{confirmedBy,id}' is not null)`;

/** If it waited: an action that needs no confirmation waits only as a dry run, or for the compensation of a plan's step. */
const isNormalDryRun = `(not critical and context #>> '{origin,plan,id}' is null)`;

/** $2: devices, $3 to $5: position that the entries are older than, $6: start, $7: examined of each device, $8: entries. */
const rangeValues = (tenantId: Uuid, range: TimelineRange, each: number): SqlValue[] => {
  const { deviceIds, from, before, limit } = range;
  return [tenantId, idArray(deviceIds), before.at, before.id, before.n, from, each, limit + 1];
};

/** The newest commands of each device that match `condition`, with their number `k` within their device. */
const newestOfEach = (columns: string, condition: string): string => `select d.id as device, found.*,
    row_number() over (partition by d.id order by found.created_at desc, found.id desc) as k
  from unnest($2::uuid[]) as d(id) cross join lateral (
    select id, created_at, ${columns} from commands where device_id = d.id and tenant_id = $1 and ${condition}
    order by created_at desc, id desc limit $7) found`;

/** The newest of the last commands that were examined of each device with more. */
const EDGE = '(select created_at, id from seen where k = $7 order by created_at desc, id desc limit 1)';

/** $9: the number of the command in the middle. The newest of those of each device with more than were examined. */
const MIDDLE = `(select created_at, id from seen where k = $9 and device in (select device from seen where k = $7)
  order by created_at desc, id desc limit 1)`;

/** A row of the answer, or only the edge. */
interface EdgeColumns {
  edge_at: number | null;
  edge_id: Uuid | null;
}
type CommandRow = EdgeColumns & ActorRow & { created_at: number };
type DecisionRow = CommandRow & {
  middle_at: number | null;
  middle_id: Uuid | null;
  decided_at: number;
  decided_version: number;
  decided_by: Principal;
  decided_event: string;
  decided_from: Json;
  decided_to: Json;
  decided_data: JsonObject | null;
};

const columns = actorColumns('command')
  .split(', ')
  .map((name) => `c.${name}`)
  .join(', ');

const edgeIn = ([row]: readonly EdgeColumns[]): EntryPosition | null =>
  row?.edge_at == null || row.edge_id === null ? null : { at: row.edge_at, id: row.edge_id, n: 0 };

function decisionEdgeIn(rows: readonly DecisionRow[]): EntryPosition | null {
  const oldest = edgeIn(rows);
  const middle = edgeIn(
    rows.slice(0, 1).map(({ middle_at, middle_id }) => ({ edge_at: middle_at, edge_id: middle_id })),
  );
  return oldest && middle && decisionEdge(middle, oldest);
}

export const timelineStore = (database: Database): TimelineStore => ({
  async commands(tenantId, groups, range) {
    const isSelective = groups.length < commandGroups.length;
    const rows = await database.read<CommandRow>({
      name: `timeline_commands${isSelective ? '_of_groups' : ''}`,
      scope: { tenantId },
      text: `with seen as materialized (${newestOfEach(
        isSelective ? `${group} = any($9::text[]) as fits` : 'true as fits',
        '(created_at, id, 0::bigint) < ($3, $4, $5) and created_at >= $6',
      )}),
        fitting as (select id from seen where fits order by created_at desc, id desc limit $8)
        select edge.created_at as edge_at, edge.id as edge_id, ${columns}, c.created_at
        from (select) one left join ${EDGE} edge on true
          left join (fitting join commands c using (id)) on true`,
      values: [
        ...rangeValues(tenantId, range, examinedOfEach(range, groups)),
        ...(isSelective ? [`{${groups.join(',')}}`] : []),
      ],
    });
    const entries = rows
      .filter(({ created_at }) => created_at !== null)
      .map((row) => ({ at: row.created_at, id: row.id, n: 0, command: storedActor('command', row) }));
    return { entries: entries.sort(newestFirst), edge: edgeIn(rows) };
  },

  async decisions(tenantId, range) {
    const each = examinedDecisionsOfEach(range);
    const rows = await database.read<DecisionRow>({
      name: 'timeline_decisions',
      scope: { tenantId },
      text: `with seen as materialized (${newestOfEach(
        `${mayHaveWaited} as waited, ${isNormalDryRun} as tried`,
        // A decision is not before its request.
        `(created_at, id) <= ($3, $4) and created_at >= $6::bigint - ${LATEST_DECISION_MS}`,
      )}),
        decided as (
          select j.*, j.id as command_id from seen cross join lateral (
            select id, version, at, by, event, from_value, to_value, data from journal
            where id = seen.id and kind = 'command' and tenant_id = $1
              and from_value ->> 'lifecycle' = 'awaiting_confirmation'
              and to_value ->> 'lifecycle' is distinct from 'awaiting_confirmation'
            order by version limit 1) j
          where seen.waited and (j.at, j.id, j.version) < ($3, $4, $5) and j.at >= $6
            and not (seen.tried and to_value ->> 'lifecycle' = 'expired')
          order by j.at desc, j.id desc, j.version desc limit $8)
        select edge.created_at as edge_at, edge.id as edge_id, middle.created_at as middle_at, middle.id as middle_id,
          ${columns}, c.created_at, decided.at as decided_at,
          decided.version as decided_version, decided.by as decided_by, decided.event as decided_event,
          decided.from_value as decided_from, decided.to_value as decided_to, decided.data as decided_data
        from (select) one left join ${EDGE} edge on true left join ${MIDDLE} middle on true
          left join (decided join commands c on c.id = decided.command_id) on true`,
      values: [...rangeValues(tenantId, range, each), middleOf(each)],
    });
    const entries = rows
      .filter(({ decided_at }) => decided_at !== null)
      .map((row) => ({
        ...{ at: row.decided_at, id: row.id, n: row.decided_version, command: storedActor('command', row) },
        decision: {
          ...{ version: row.decided_version, at: row.decided_at, by: row.decided_by, event: row.decided_event },
          ...{ from: row.decided_from, to: row.decided_to, data: row.decided_data },
        },
      }));
    return { entries: entries.sort(newestFirst), edge: decisionEdgeIn(rows) };
  },

  async reportEntries(tenantId, { commandIds, sequence, receivedAt }) {
    if (commandIds.length === 0) return [];
    const rows = await database.read<JournalColumns & { id: Uuid }>({
      name: 'timeline_report_entries',
      scope: { tenantId },
      text: `select id, ${journalColumns} from journal
        where id = any($2::uuid[]) and kind = 'command' and tenant_id = $1 and at between $4 and $5
          and event in ('ack.received', 'state.observed') and data ->> 'sequence_number' = $3
        order by at, id, version`,
      values: [
        ...[tenantId, idArray(commandIds), String(sequence)],
        ...[receivedAt - REPORT_ENTRY_MS.before, receivedAt + REPORT_ENTRY_MS.after],
      ],
    });
    return rows.map(({ id, ...columns }) => ({ commandId: id, entry: journalEntry(columns) }));
  },
});
