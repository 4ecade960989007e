import { MAX_CONFIRM_TTL_S } from '../../domain/policy.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { JournalEntry, StoredActor } from './actor-rows.ts';
import { type EntryPosition, isNewer } from './entry-page.ts';

/** Commands that the gateway refused, other commands of plans, and all others. */
export const commandGroups = ['refusal', 'plan', 'command'] as const;
export type CommandGroup = (typeof commandGroups)[number];

/** The part of a timeline that is read. */
export interface TimelineRange {
  deviceIds: readonly Uuid[];
  /** At or after this time. */
  from: EpochMs;
  /** Older than this position. */
  before: EntryPosition;
  limit: number;
}

/** A command at the time of its request; its `n` is 0. */
export interface TimelineCommand extends EntryPosition {
  command: StoredActor;
}

/** The end of a command's wait for a confirmation; `n` is the version of the command. */
export interface TimelineDecision extends TimelineCommand {
  decision: JournalEntry;
}

/** A report that may have been caused by one of these commands. */
export interface CausedReport {
  commandIds: readonly Uuid[];
  sequence: number;
  receivedAt: EpochMs;
}

/** A command's journal entry of a report: its ack had the state, or the state was compared with the expected one. */
export interface ReportEntry {
  commandId: Uuid;
  entry: JournalEntry;
}

/** A command receives a report after its device; its clock may have been set back, and its message may be delivered late. */
export const REPORT_ENTRY_MS = { before: 60_000, after: 3_600_000 } as const;

export interface TimelinePart<Entry extends EntryPosition> {
  /** At most one more than `limit`, newest first. */
  entries: Entry[];
  /** Entries older than this were not examined; null if all were. */
  edge: EntryPosition | null;
}

/** Events of devices, newest first. A call examines a limited number of commands of each device. */
export interface TimelineStore {
  commands(
    tenantId: Uuid,
    groups: readonly CommandGroup[],
    range: TimelineRange,
  ): Promise<TimelinePart<TimelineCommand>>;
  /** Confirmed, refused, cancelled and expired ones, without dry runs of actions that need no confirmation that expired. */
  decisions(tenantId: Uuid, range: TimelineRange): Promise<TimelinePart<TimelineDecision>>;
  /** The entries of the report in the journals of the commands, oldest first. */
  reportEntries(tenantId: Uuid, report: CausedReport): Promise<ReportEntry[]>;
}

/** The most commands that one page examines: of one device, and of all devices but for the minimum of each. */
const MAX_EXAMINED_OF_DEVICE = 2_000;
const MAX_EXAMINED = 5_000;
const MIN_EXAMINED_OF_DEVICE = 5;

/** Commands of each device that one page examines; one of each group needs no more than its entries. */
export function examinedOfEach({ deviceIds, limit }: TimelineRange, groups: readonly CommandGroup[]): number {
  const most = groups.length === commandGroups.length ? limit + 1 : MAX_EXAMINED_OF_DEVICE;
  const share = Math.floor(MAX_EXAMINED / Math.max(1, deviceIds.length));
  return Math.min(most, Math.max(MIN_EXAMINED_OF_DEVICE, share));
}

/** A confirmation expires by then, and its timer may be late. */
export const LATEST_DECISION_MS = (MAX_CONFIRM_TTL_S + 3_600) * 1_000;

/** The most commands whose decisions one page examines, but for the minimum of each device. */
const MAX_DECISIONS = 10_000;
const MIN_DECISIONS_OF_DEVICE = 20;

/** Commands of each device whose decisions one page examines, of those that were requested so late that one may be on it. */
export function examinedDecisionsOfEach({ deviceIds }: TimelineRange): number {
  const share = Math.floor(MAX_DECISIONS / Math.max(1, deviceIds.length));
  return Math.min(MAX_EXAMINED_OF_DEVICE, Math.max(MIN_DECISIONS_OF_DEVICE, share));
}

/**
 * The end of a page of decisions, if no command older than `oldest` was examined. Such a command may have been decided until
 * `LATEST_DECISION_MS` after `oldest`, which can be later than the start of the page. So a page always reaches back to
 * `middle`, the command in the middle of those that were examined. A decision is missing only if it was made after as many
 * later requests of its device as half of the commands that are examined.
 */
export function decisionEdge(middle: EntryPosition, oldest: EntryPosition): EntryPosition {
  const latest = { ...oldest, at: oldest.at + LATEST_DECISION_MS };
  return isNewer(middle, latest) ? latest : middle;
}

/** The number of the command in the middle, of commands that are numbered from 1, newest first. */
export const middleOf = (examined: number): number => Math.floor(examined / 2);
