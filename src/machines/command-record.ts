import { z } from 'zod';
import {
  type CommandStatus,
  commandStatuses,
  isFinalCommandStatus,
  type VerificationStatus,
  verificationStatuses,
} from '../domain/command.ts';
import { safetyClasses } from '../domain/manifest.ts';
import { type RefusalCode, refusals } from '../domain/refusals.ts';
import { uuid } from '../domain/uuid-schema.ts';
import type { Json, JsonObject } from '../domain/values.ts';
import type { CommandColumns } from './actor-columns.ts';
import { type CommandDelay, commandMachine } from './command.ts';
import { toAdminView } from './command-admin-view.ts';
import type { CommandContext, CommandEvent, CommandFixed, CommandLive } from './command-types.ts';
import { causeOf, type JournalNote, type MachineDefinition, type MachineEvent, type Snapshot } from './definition.ts';
import {
  count,
  epochMs,
  principal,
  storedChanges,
  storedForm,
  storedJson,
  storedJsonObject,
} from './stored-schemas.ts';

// Stored form, journal entries and admin view of a command.

/** The status of a state value, including `from` and `to` of a journal entry. */
export function commandStatusOf({ value }: Pick<Snapshot, 'value'>): CommandStatus {
  const { lifecycle } = value as { lifecycle: string | { written: CommandStatus } };
  if (typeof lifecycle === 'object') return lifecycle.written;
  if (lifecycle === 'queued') return 'dispatched';
  return lifecycle === 'closed' ? 'timed_out' : (lifecycle as CommandStatus);
}

/** The verification status of a state value. */
export function verificationOf({ value }: Pick<Snapshot, 'value'>): VerificationStatus {
  const { verification } = value as { verification: VerificationStatus | 'idle' | { watching: Json } };
  return verification === 'idle' || typeof verification === 'object' ? 'pending' : verification;
}

/** The command waits for its device to connect, which can take a day; its next event reloads it. */
const isQueued = ({ value }: Snapshot): boolean => (value as { lifecycle: Json }).lifecycle === 'queued';

/** The device's reports are compared with the expected state. */
const isWatching = ({ value }: Snapshot): boolean => typeof (value as { verification: Json }).verification === 'object';

/** Members that all versions share. Version 1 has no plan, and a top-level `requestId`. */
const commonFixed = {
  id: uuid,
  tenantId: uuid,
  deviceId: uuid,
  action: z.string(),
  params: storedJsonObject,
  messageId: uuid,
  requestedBy: principal,
  requestedAt: epochMs,
  safetyClass: z.enum(safetyClasses).nullable(),
  manifestVersion: count.nullable(),
  limits: z.strictObject({ ttlMs: count, timeoutMs: count }),
  refusal: z
    .strictObject({
      code: z.custom<RefusalCode>((code) => Object.hasOwn(refusals, code as string)),
      detail: z.string(),
    })
    .nullable(),
  confirmation: z
    .strictObject({
      tokenHash: z.string(),
      expiresAt: epochMs,
      reason: z.string(),
      preview: z.strictObject({
        current: storedJsonObject,
        expected: storedJsonObject.nullable(),
        changes: storedChanges.nullable(),
        firmware: z
          .strictObject({
            version: z.string(),
            url_host: z.string().nullable(),
            checksum: z.string().nullable(),
            released_by: uuid.nullable(),
          })
          .exactOptional(),
        device: z
          .strictObject({ name: z.string().nullable(), home_id: uuid.nullable(), room_id: uuid.nullable() })
          .exactOptional(),
      }),
      asked: z.boolean(),
    })
    .nullable(),
  confirmedBy: principal.nullable(),
};

const live = {
  status: z.enum(commandStatuses),
  delivery: z
    .strictObject({
      dispatchedAt: epochMs,
      expiresAt: epochMs,
      firstWrittenAt: epochMs.nullable(),
      sessionId: z.string().nullable(),
      writes: count,
      supplement: storedJsonObject.exactOptional(),
    })
    .nullable(),
  answer: z.strictObject({
    progress: storedJson,
    result: storedJson,
    error: storedJson,
    timedOutAt: epochMs.nullable(),
    late: z.boolean(),
    strayWords: count,
  }),
  verification: z.strictObject({
    status: z.enum(verificationStatuses),
    expected: storedJsonObject.nullable(),
    withinMs: count,
    observed: storedJsonObject.nullable(),
    checkedAt: epochMs.nullable(),
  }),
  sealedParams: z.string().nullable().exactOptional(),
};

const origin = z.strictObject({
  requestId: z.string(),
  plan: z
    .strictObject({
      id: uuid,
      stepId: z.string(),
      compensation: z.strictObject({ action: z.string(), params: storedJsonObject }).nullable(),
    })
    .nullable(),
});

const stored = storedForm<CommandContext>()({ ...commonFixed, origin }, live);
const storedV1 = storedForm<CommandContextV1>()({ ...commonFixed, requestId: z.string() }, live);

interface CommandContextV1 {
  fixed: Omit<CommandFixed, 'origin'> & { requestId: string };
  live: CommandLive;
}

/** Records only the change; acks and parameters are stored in the context. */
function note(event: CommandEvent | { type: CommandDelay }, after: CommandContext): JsonObject {
  switch (event.type) {
    case 'request': {
      const { action, safetyClass, refusal } = after.fixed;
      return { action, safety_class: safetyClass, ...(refusal && { code: refusal.code, reason: refusal.detail }) };
    }
    case 'confirm':
      return { inbox: event.tokenHash === null };
    case 'cancel':
    case 'refuse':
      return event.reason === undefined ? {} : { reason: event.reason };
    case 'device.revoked':
      return { reason: 'the device was revoked' };
    case 'plan.withdrawn':
      return { reason: 'withdrawn by its plan' };
    case 'session.ready':
    case 'write.undone':
      return { writes: after.live.delivery?.writes ?? 0 };
    case 'ack.received':
      return {
        ...{ late: after.live.answer.late, word: event.ack.status, stray_words: after.live.answer.strayWords },
        ...reportNote(event),
      };
    case 'state.observed':
      return { matches: event.matches, ...reportNote(event) };
    case 'confirmationOver':
      return { reason: 'not confirmed in time' };
    case 'ttlOver':
      return { reason: 'not written within ttl_s' };
    case 'answerOver':
      return { reason: 'no final ack within timeout_s' };
    case 'lateWordOver':
      return { reason: 'no late ack within 24 h' };
    case 'verificationOver':
      return { reason: 'not verified within verify_within_s' };
    default:
      event satisfies never;
      return {};
  }
}

/** By it `GET /devices/{id}/why` finds the command that caused a report. */
const reportNote = ({ sequence }: { sequence?: number }): JsonObject =>
  sequence === undefined ? {} : { sequence_number: sequence };

function journal(
  event: MachineEvent,
  before: Snapshot<CommandContext> | null,
  after: Snapshot<CommandContext>,
): JournalNote | null {
  if (before === after || isProgress(event, before, after)) return null;
  return { data: note(causeOf<CommandEvent, CommandDelay>(event), after.context) };
}

/** Progress reports may be frequent: the context stores the last one, the journal none. */
const isProgress = (event: MachineEvent, before: Snapshot<CommandContext> | null, after: Snapshot<CommandContext>) =>
  event.type === 'ack.received' &&
  before?.context.live.status === 'in_progress' &&
  after.context.live.status === 'in_progress';

export const commandDefinition: MachineDefinition<CommandContext, CommandColumns> = {
  kind: 'command',
  version: 2,
  machine: commandMachine,
  tenantOf: (context) => context.fixed.tenantId,
  toStored: stored.write,
  fromStored: stored.read,
  storedSchema: stored.schema,
  columns(snapshot): CommandColumns {
    const { deviceId, action, safetyClass, confirmation, requestedAt } = snapshot.context.fixed;
    const { delivery } = snapshot.context.live;
    const verification = verificationOf(snapshot);
    return {
      device_id: deviceId,
      action,
      status: commandStatusOf(snapshot),
      verification: verification === 'pending' && !isWatching(snapshot) ? 'idle' : verification,
      critical: safetyClass === 'CRITICAL',
      written: delivery !== null && delivery.firstWrittenAt !== null,
      token_hash: confirmation?.tokenHash ?? null,
      created_at: requestedAt,
    };
  },
  journal,
  canPassivate: (snapshot) =>
    isQueued(snapshot) || (isFinalCommandStatus(commandStatusOf(snapshot)) && !isWatching(snapshot)),
  isTransient: () => false,
  toAdminView,
};

export const commandDefinitionV1: MachineDefinition<CommandContext, CommandColumns> = {
  ...commandDefinition,
  version: 1,
  toStored: ({ fixed: { origin, ...fixed }, live }) =>
    storedV1.write({ fixed: { ...fixed, requestId: origin.requestId }, live }),
  storedSchema: storedV1.schema,
  fromStored(json) {
    const {
      fixed: { requestId, ...fixed },
      live,
    } = storedV1.read(json);
    return { fixed: { ...fixed, origin: { requestId, plan: null } }, live };
  },
};
