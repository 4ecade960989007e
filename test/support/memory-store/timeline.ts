import type { EpochMs, JsonObject, Uuid } from '../../../src/domain/values.ts';
import { type EntryPosition, isNewer, newestFirst } from '../../../src/store/contract/entry-page.ts';
import {
  type CausedReport,
  type CommandGroup,
  decisionEdge,
  examinedDecisionsOfEach,
  examinedOfEach,
  LATEST_DECISION_MS,
  middleOf,
  REPORT_ENTRY_MS,
  type ReportEntry,
  type TimelineCommand,
  type TimelineDecision,
  type TimelinePart,
  type TimelineRange,
  type TimelineStore,
} from '../../../src/store/contract/timeline.ts';
import { journalEntry, storedActor } from './actors.ts';
import { actorsOf } from './commands.ts';
import { type ActorRow, actorKey, type Tables } from './database.ts';
import type { Session } from './session.ts';

type Positioned = EntryPosition & { row: ActorRow };

const planOf = ({ context }: ActorRow): unknown =>
  (context.origin as { plan?: JsonObject | null } | undefined)?.plan?.id;

const groupOf = (row: ActorRow): CommandGroup =>
  row.columns.status === 'rejected' ? 'refusal' : planOf(row) == null ? 'command' : 'plan';

const positionsOf = (rows: readonly Positioned[]): EntryPosition[] => rows.map(({ at, id, n }) => ({ at, id, n }));
const newestOf = (positions: readonly EntryPosition[]): EntryPosition | null =>
  positions.toSorted(newestFirst)[0] ?? null;

/** The newest commands of each device that match, and the newest of the last and the middle ones of devices with `most`. */
function examined(
  tables: Tables,
  { tenantId, deviceIds, most }: { tenantId: Uuid; deviceIds: readonly Uuid[]; most: number },
  fits: (row: Positioned) => boolean,
): { rows: Positioned[]; edge: EntryPosition | null; middle: EntryPosition | null } {
  const rows: Positioned[] = [];
  const edges: EntryPosition[] = [];
  const middles: EntryPosition[] = [];
  for (const deviceId of deviceIds) {
    const own = actorsOf(tables, 'command', (row) => row.tenantId === tenantId && row.columns.device_id === deviceId)
      .map((row) => ({ at: row.columns.created_at as EpochMs, id: row.ref.id, n: 0, row }))
      .filter(fits)
      .sort(newestFirst)
      .slice(0, most);
    rows.push(...own);
    if (own.length < most) continue;
    edges.push(...positionsOf(own.slice(-1)));
    middles.push(...positionsOf(own.slice(middleOf(most) - 1, middleOf(most))));
  }
  return { rows: rows.sort(newestFirst), edge: newestOf(edges), middle: newestOf(middles) };
}

function commands(
  tables: Tables,
  tenantId: Uuid,
  groups: readonly CommandGroup[],
  range: TimelineRange,
): TimelinePart<TimelineCommand> {
  const { deviceIds, from, before, limit } = range;
  const of = { tenantId, deviceIds, most: examinedOfEach(range, groups) };
  const { rows, edge } = examined(tables, of, (one) => isNewer(before, one) && one.at >= from);
  const fitting = rows.filter(({ row }) => groups.includes(groupOf(row))).slice(0, limit + 1);
  return { entries: fitting.map(({ row, ...position }) => ({ ...position, command: storedActor(row) })), edge };
}

const lifecycleOf = (value: unknown): unknown => (value as { lifecycle?: unknown } | null)?.lifecycle;

/** The end of a command's wait; none of a dry run of an action that needs no confirmation, if it expired. */
function decisionOf(tables: Tables, { row }: Positioned): TimelineDecision[] {
  const isNormalDryRun = row.columns.critical !== true && planOf(row) == null;
  const journal = (tables.journal.get(actorKey(row.ref)) ?? []).toSorted((a, b) => a.version - b.version);
  const found = journal.find(
    ({ from, to }) => lifecycleOf(from) === 'awaiting_confirmation' && lifecycleOf(to) !== 'awaiting_confirmation',
  );
  if (found === undefined || (isNormalDryRun && lifecycleOf(found.to) === 'expired')) return [];
  const { at, version: n } = found;
  return [{ at, id: row.ref.id, n, command: storedActor(row), decision: journalEntry(found) }];
}

function decisions(tables: Tables, tenantId: Uuid, range: TimelineRange): TimelinePart<TimelineDecision> {
  const { deviceIds, from, before, limit } = range;
  const { rows, edge, middle } = examined(
    tables,
    { tenantId, deviceIds, most: examinedDecisionsOfEach(range) },
    (one) => !isNewer({ ...one, n: before.n }, before) && one.at >= from - LATEST_DECISION_MS,
  );
  const entries = rows
    .flatMap((one) => decisionOf(tables, one))
    .filter((one) => isNewer(before, one) && one.at >= from)
    .sort(newestFirst)
    .slice(0, limit + 1);
  return { entries, edge: edge && middle && decisionEdge(middle, edge) };
}

function reportEntries(
  tables: Tables,
  tenantId: Uuid,
  { commandIds, sequence, receivedAt }: CausedReport,
): ReportEntry[] {
  const rows = commandIds.flatMap((commandId) =>
    (tables.journal.get(actorKey({ kind: 'command', id: commandId })) ?? []).map((row) => ({ commandId, row })),
  );
  const from = receivedAt - REPORT_ENTRY_MS.before;
  const to = receivedAt + REPORT_ENTRY_MS.after;
  return rows
    .filter(({ row }) => row.tenantId === tenantId && row.at >= from && row.at <= to)
    .filter(({ row: { event, data } }) => isOfReport(event) && data?.sequence_number === sequence)
    .sort(({ row: a }, { row: b }) => a.at - b.at || a.version - b.version)
    .map(({ commandId, row }) => ({ commandId, entry: journalEntry(row) }));
}

const isOfReport = (event: string): boolean => event === 'ack.received' || event === 'state.observed';

export const timelineStore = (session: Session): TimelineStore => ({
  commands: (tenantId, groups, range) => session.read('timeline.commands', [tenantId, groups, range], commands),
  decisions: (tenantId, range) => session.read('timeline.decisions', [tenantId, range], decisions),
  reportEntries: (tenantId, report) => session.read('timeline.reportEntries', [tenantId, report], reportEntries),
});
