import { MAX_TIMEOUT_FACTOR } from '../../domain/command.ts';
import { type SampleValue, stateValueAt } from '../../domain/history/sample.ts';
import type { EpochMs, Json, JsonObject, Milliseconds, Uuid } from '../../domain/values.ts';
import { verificationOf } from '../../machines/command-record.ts';
import type { CommandLive } from '../../machines/command-types.ts';
import { startPosition } from '../../store/contract/entry-page.ts';
import { commandGroups, LATEST_DECISION_MS, type TimelineCommand } from '../../store/contract/timeline.ts';
import type { Services } from '../operation.ts';
import { commandIn } from './timeline-entry.ts';

// The command that caused a report, if there is one.

/** How it is known that the command caused the report; the first two are certain. */
export const evidences = ['ack', 'verification', 'expected_value', 'expected_property'] as const;
export type Evidence = (typeof evidences)[number];

export interface CausedBy {
  command: TimelineCommand;
  evidence: Evidence;
}

/** A reported value. */
export interface ReportedValue {
  tenantId: Uuid;
  deviceId: Uuid;
  property: string;
  value: SampleValue;
  receivedAt: EpochMs;
  /** Null if the report has expired: then nothing is certain. */
  sequence: number | null;
}

/** Commands that are examined, newest first. */
export const MAX_EXAMINED_COMMANDS = 100;

/** A command is written up to 24 hours after its dispatch, which may be as long after its request. */
const LATEST_CAUSE_MS: Milliseconds = 2 * LATEST_DECISION_MS;

/** `isComplete`: false if the device had more commands than were examined. */
export async function causeOfReport(
  { store }: Pick<Services, 'store'>,
  report: ReportedValue,
): Promise<{ cause: CausedBy | null; isComplete: boolean }> {
  const { tenantId, deviceId, receivedAt, sequence } = report;
  const { entries } = await store.timeline.commands(tenantId, commandGroups, {
    ...{ deviceIds: [deviceId], from: receivedAt - LATEST_CAUSE_MS, limit: MAX_EXAMINED_COMMANDS },
    before: startPosition(receivedAt + 1, undefined),
  });
  const written = entries.slice(0, MAX_EXAMINED_COMMANDS).filter((one) => writtenAt(one) <= receivedAt);
  const certain = sequence === null ? null : await certainCause(store, written, { ...report, sequence });
  const cause = certain ?? probableCause(written, report);
  return { cause, isComplete: entries.length <= MAX_EXAMINED_COMMANDS };
}

/** Rows of older builds have no `origin`, which is not read here. */
const liveOf = ({ command }: TimelineCommand) =>
  command.context as unknown as Pick<CommandLive, 'delivery' | 'verification'>;

const writtenAt = (one: TimelineCommand): EpochMs => liveOf(one).delivery?.firstWrittenAt ?? Number.POSITIVE_INFINITY;

async function certainCause(
  { timeline }: Services['store'],
  written: readonly TimelineCommand[],
  report: ReportedValue & { sequence: number },
): Promise<CausedBy | null> {
  const { tenantId, sequence, receivedAt } = report;
  const commandIds = written.map(({ id }) => id);
  const found = await timeline.reportEntries(tenantId, { commandIds, sequence, receivedAt });
  const commandOf = (id: Uuid) => written.find((one) => one.id === id);
  for (const { commandId, entry } of found) {
    const command = commandOf(commandId);
    if (command !== undefined && entry.event === 'ack.received') return { command, evidence: 'ack' };
  }
  for (const { commandId, entry } of found) {
    const command = commandOf(commandId);
    if (command !== undefined && entry.data?.matches === true && expectedValue(command, report) === report.value)
      return { command, evidence: 'verification' };
  }
  return null;
}

/** The last one written that was open at the time: better one that expected the value than one that expected another. */
function probableCause(written: readonly TimelineCommand[], report: ReportedValue): CausedBy | null {
  const open = written
    .filter((one) => isOpenAt(one, report.receivedAt))
    .sort((one, other) => writtenAt(other) - writtenAt(one));
  const exact = open.find((one) => expectedValue(one, report) === report.value);
  if (exact !== undefined) return { command: exact, evidence: 'expected_value' };
  const near = open.find((one) => expectedValue(one, report) !== undefined);
  return near === undefined ? null : { command: near, evidence: 'expected_property' };
}

/** The value of the property in the state that the command expects; undefined without one. */
function expectedValue(one: TimelineCommand, { property }: ReportedValue): SampleValue | undefined {
  const expected: JsonObject | null = liveOf(one).verification.expected;
  return expected === null ? undefined : stateValueAt(expected, property);
}

/**
 * Whether reports were compared with the expected state. A command that timed out waits for a day; then it is the cause
 * only of what was reported while the device may have been executing it.
 */
function isOpenAt(one: TimelineCommand, at: EpochMs): boolean {
  const { command } = one;
  const { withinMs, checkedAt } = liveOf(one).verification;
  if (at > writtenAt(one) + MAX_TIMEOUT_FACTOR * commandIn(one).limits.timeoutMs + withinMs) return false;
  const value = command.value as { verification: Json };
  if (verificationOf({ value }) !== 'pending') return checkedAt !== null && at <= checkedAt;
  return typeof value.verification === 'object' || at <= command.since;
}
