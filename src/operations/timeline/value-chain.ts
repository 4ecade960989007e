import { z } from 'zod';
import type { SampleValue } from '../../domain/history/sample.ts';
import { iso } from '../../domain/iso-time.ts';
import type { ShapingMemory } from '../../domain/memory.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Principal, Uuid } from '../../domain/values.ts';
import { commandStatusOf } from '../../machines/command-record.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import type { JournalEntry } from '../../store/contract/actor-rows.ts';
import type { TimelineCommand } from '../../store/contract/timeline.ts';
import type { LastChange } from '../devices/last-change.ts';
import { isoTime } from '../inputs.ts';
import { requestedWith, requestedWithOf } from '../requested-with.ts';
import { type EntryDetails, timelineEntryOf } from './timeline-entry.ts';

// The chain of events that led to a value, from the report back to the person, key or agent.

export const chainKinds = ['report', 'command', 'confirmation', 'plan', 'memory'] as const;

export const chainLink = z
  .object({
    kind: z.enum(chainKinds),
    at: isoTime.nullable().meta({ description: 'Of a command: when it was requested; null for a memory' }),
    text: z.string().meta({ description: 'What happened, in English' }),
    id: uuid
      .nullable()
      .meta({ description: 'Of the command, of the command that was confirmed, the plan or the memory' }),
    by: uuid
      .nullable()
      .meta({ description: 'The user; null if the device, the service or a key without a user did it' }),
    credential: requestedWith.nullable().meta({ description: 'The credential of the user' }),
  })
  .meta({ id: 'ValueChainLink' });
export type ChainLink = z.infer<typeof chainLink>;

const nothing = { id: null, by: null, credential: null };

const valueText = (value: SampleValue): string => JSON.stringify(value);

export function reportLink({ value, before, sample, from }: LastChange): ChainLink {
  const instead = before === null ? '' : ` instead of ${valueText(before)}`;
  const text =
    sample === null
      ? `The device began to report ${valueText(value)}${instead} in this minute`
      : `The device reported ${valueText(value)}${instead}`;
  return { kind: 'report', at: iso(from), text, ...nothing };
}

export function commandLink(command: TimelineCommand, details: EntryDetails): ChainLink {
  const { at, text, by, credential, command_id } = timelineEntryOf(command, details);
  return { kind: 'command', at, text, id: command_id, by, credential };
}

/** Null if the command did not wait for a confirmation. */
export function confirmationLink(
  command: TimelineCommand,
  decision: JournalEntry | null,
  details: EntryDetails,
): ChainLink | null {
  if (decision === null) return null;
  const { at, text, by, credential, command_id } = timelineEntryOf({ ...command, at: decision.at, decision }, details);
  return { kind: 'confirmation', at, text, id: command_id, by, credential };
}

/** The entry with which the wait for a confirmation ended. */
export function decisionIn(journal: readonly JournalEntry[]): JournalEntry | null {
  const waits = (value: JournalEntry['to']): boolean =>
    value !== null && commandStatusOf({ value }) === 'awaiting_confirmation';
  return journal.find(({ from, to }) => waits(from) && !waits(to)) ?? null;
}

export function planLink({ fixed, live }: PlanContext, keyNames: EntryDetails['keyNames']): ChainLink {
  const { id, name, createdBy, createdAt } = fixed;
  const plan = name === null ? 'The plan' : `The plan “${name}”`;
  return {
    kind: 'plan',
    at: iso(createdAt),
    text: `${plan} ${purposeOf(live.cognition)}`,
    id,
    ...userOf(createdBy, keyNames),
  };
}

/** Rows written by an older version have no cognition. */
function purposeOf(cognition: PlanContext['live']['cognition'] | undefined): string {
  if (cognition == null) return 'was requested';
  const { kind, text, note, proposalId } = cognition;
  const words = text ?? note;
  const quoted = words === null ? '' : ` “${words}”`;
  if (kind === 'observation' || proposalId !== null) return `is an accepted proposal${quoted}`;
  return kind === 'goal' ? `was made for the goal${quoted}` : `was made for an intent${quoted}`;
}

function userOf(principal: Principal, keyNames: EntryDetails['keyNames']): Pick<ChainLink, 'by' | 'credential'> {
  if (principal.kind !== 'user') return { by: null, credential: null };
  return { by: principal.id, credential: requestedWithOf(principal, keyNames) };
}

/** A memory names its author only: `user:<id>` or `key:<prefix>`. */
export function memoryLink({ id, kind, subject, source, adoptedBy }: Omit<ShapingMemory, 'steps'>): ChainLink {
  const [author, reference = ''] = source.split(':');
  const about = subject === null ? '' : ` about “${subject}”`;
  return {
    ...{ kind: 'memory', at: null, id, text: `The ${kind}${about} shaped the step` },
    by: adoptedBy ?? (author === 'user' ? (reference as Uuid) : null),
    credential: author === 'key' ? { kind: 'api_key', prefix: reference } : null,
  };
}
