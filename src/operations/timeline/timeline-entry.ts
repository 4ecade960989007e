import { z } from 'zod';
import type { CommandStatus } from '../../domain/command.ts';
import type { ConnectionEvent } from '../../domain/connection-event.ts';
import { commandStatusSchema } from '../../domain/enum-schemas.ts';
import { iso } from '../../domain/iso-time.ts';
import { sentenceCase } from '../../domain/readable-name.ts';
import { shownParams } from '../../domain/request-fields.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import type { Json, Principal, Uuid } from '../../domain/values.ts';
import { commandStatusOf } from '../../machines/command-record.ts';
import type { CommandFixed } from '../../machines/command-types.ts';
import type { EntryPosition } from '../../store/contract/entry-page.ts';
import type { TimelineCommand, TimelineDecision } from '../../store/contract/timeline.ts';
import { isoTime } from '../inputs.ts';
import { requestedWith, requestedWithOf } from '../requested-with.ts';

// The entries of a timeline.

export const timelineKinds = ['presence', 'command', 'plan', 'confirmation', 'refusal', 'firmware'] as const;
export type TimelineKind = (typeof timelineKinds)[number];

const decisions = ['confirmed', 'refused', 'cancelled', 'expired'] as const;

export const timelineEntry = z
  .object({
    at: isoTime.meta({ description: 'Of a command: when it was requested' }),
    kind: z.enum(timelineKinds).meta({
      description:
        '`presence`: the device came online or went offline; `command`: a command that was requested; `plan`: a command that a step of a plan requested; `confirmation`: the end of a wait for a confirmation; `refusal`: a command that the safety gateway refused; `firmware`: the device reported another version',
    }),
    text: z.string().meta({
      description: 'A sentence in English about the event, with the name of the action as a text: `Set brightness`',
    }),
    device_id: uuid,
    device_name: z.string().nullable().meta({ description: 'The current name of the device, or its type' }),
    by: uuid
      .nullable()
      .meta({ description: 'The user who requested or decided it; null if the device or the service did' }),
    credential: requestedWith.nullable().meta({ description: 'The credential of the user' }),
    command_id: uuid.nullable(),
    plan_id: uuid.nullable().meta({ description: 'The plan of the command, if the credential may read plans' }),
    action: z.string().nullable(),
    params: shownParams.nullable(),
    status: commandStatusSchema.nullable().meta({ description: 'The current status of the command' }),
    decision: z.enum(decisions).nullable().meta({ description: 'Of a confirmation' }),
    code: z.string().nullable().meta({ description: 'Why the safety gateway refused the command' }),
  })
  .meta({ id: 'TimelineEntry' });
export type TimelineEntry = z.infer<typeof timelineEntry>;

/** A connection event of a device; its position has the number of its kind. */
export interface DeviceConnection extends EntryPosition {
  connection: Exclude<ConnectionEvent, { event: 'hello' }>;
}

export type FoundEntry = DeviceConnection | TimelineCommand | TimelineDecision;

/** Names for the text of an entry, and the permissions of the caller. */
export interface EntryDetails {
  deviceNames: ReadonlyMap<Uuid, string>;
  /** Of the plans of the commands; empty if the caller may not read plans. */
  planNames: ReadonlyMap<Uuid, string>;
  keyNames: ReadonlyMap<string, string>;
  mayReadPlans: boolean;
}

/** Rows written by an older version have no origin. */
type StoredCommand = Omit<CommandFixed, 'origin'> & Partial<Pick<CommandFixed, 'origin'>>;

export const commandIn = ({ command }: TimelineCommand): StoredCommand => command.context as unknown as StoredCommand;

/** The plan of a command, and its step. */
export const planIn = (entry: TimelineCommand) => commandIn(entry).origin?.plan ?? null;

/** The principal that requested the command, or decided on it. */
export const principalIn = (entry: TimelineCommand | TimelineDecision): Principal =>
  'decision' in entry ? entry.decision.by : commandIn(entry).requestedBy;

export function timelineEntryOf(found: FoundEntry, details: EntryDetails): TimelineEntry {
  if ('connection' in found) return connectionEntry(found, details);
  const { action, params, deviceId, refusal } = commandIn(found);
  const status = commandStatusOf(found.command);
  const plan = details.mayReadPlans ? planIn(found) : null;
  const by = principalIn(found);
  const isUser = by.kind === 'user';
  const common = {
    ...{ at: iso(found.at), device_id: deviceId, device_name: details.deviceNames.get(deviceId) ?? null },
    ...{ by: isUser ? by.id : null, credential: isUser ? requestedWithOf(by, details.keyNames) : null },
    ...{ command_id: found.id, plan_id: plan?.id ?? null, action, params, status, decision: null, code: null },
  };
  if ('decision' in found) return { ...common, ...decisionOf(found, sentenceCase(action)) };
  if (status === 'rejected') {
    const why = refusal === null ? '' : `: ${refusal.detail}`;
    return {
      ...common,
      kind: 'refusal',
      text: `${sentenceCase(action)} was refused${why}`,
      code: refusal?.code ?? null,
    };
  }
  const text = commandText(found, status);
  if (planIn(found) === null) return { ...common, kind: 'command', text };
  const name = plan && details.planNames.get(plan.id);
  return {
    ...common,
    kind: 'plan',
    text: `Step “${plan?.stepId}” of ${name == null ? 'a plan' : `the plan “${name}”`}: ${text}`,
  };
}

const statusTexts: Readonly<Record<CommandStatus, string>> = {
  submitted: 'was requested',
  rejected: 'was refused',
  awaiting_confirmation: 'waits for a confirmation',
  dispatched: 'was dispatched',
  acknowledged: 'was accepted by the device',
  in_progress: 'is running',
  succeeded: 'succeeded',
  failed: 'failed',
  timed_out: 'was not answered in time',
  expired: 'expired',
  cancelled: 'was cancelled',
};

function commandText(found: TimelineCommand, status: CommandStatus): string {
  const { action, confirmation, confirmedBy } = commandIn(found);
  const isDryRun = confirmation?.asked === true && confirmedBy === null;
  const name = sentenceCase(action);
  return isDryRun ? `Dry run of “${name}”` : `${name} ${statusTexts[status]}`;
}

type DecisionMembers = Pick<TimelineEntry, 'kind' | 'text' | 'decision'>;

function decisionOf({ decision: { event, to, data } }: TimelineDecision, action: string): DecisionMembers {
  const kind = 'confirmation';
  const status = commandStatusOf({ value: to });
  if (status === 'expired') return { kind, decision: 'expired', text: `${action} was not confirmed in time` };
  if (status !== 'cancelled') return { kind, decision: 'confirmed', text: `${action} was confirmed` };
  const why = reasonText(data?.reason);
  if (event === 'refuse')
    return { kind, decision: 'refused', text: `The confirmation of “${action}” was refused${why}` };
  return { kind, decision: 'cancelled', text: `${action} was cancelled before it was confirmed${why}` };
}

const reasonText = (reason: Json | undefined): string => (typeof reason === 'string' ? `: ${reason}` : '');

function connectionEntry({ at, id, connection }: DeviceConnection, { deviceNames }: EntryDetails): TimelineEntry {
  return {
    ...{ at: iso(at), kind: kindOfConnection(connection), text: connectionText(connection) },
    ...{ device_id: id, device_name: deviceNames.get(id) ?? null, by: null, credential: null, command_id: null },
    ...{ plan_id: null, action: null, params: null, status: null, decision: null, code: null },
  };
}

export const kindOfConnection = ({ event }: DeviceConnection['connection']): 'presence' | 'firmware' =>
  event === 'firmware' ? 'firmware' : 'presence';

function connectionText(connection: DeviceConnection['connection']): string {
  if (!('firmware' in connection)) return connection.event === 'online' ? 'Came online' : 'Went offline';
  const { firmware, previous } = connection;
  return previous === null ? `Reported the firmware ${firmware}` : `Firmware changed from ${previous} to ${firmware}`;
}
