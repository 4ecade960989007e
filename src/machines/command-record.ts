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
import type { Json, JsonObject } from '../domain/values.ts';
import { commandMachine } from './command.ts';
import { toAdminView } from './command-admin-view.ts';
import type { CommandContext, CommandEvent } from './command-types.ts';
import type { JournalNote, MachineDefinition, MachineEvent, Snapshot, StoredContext } from './definition.ts';
import { count, epochMs, principal, storedJson, storedJsonObject, storedUuid } from './stored-schemas.ts';

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
const common = {
  id: storedUuid,
  tenantId: storedUuid,
  deviceId: storedUuid,
  action: z.string(),
  params: storedJsonObject,
  messageId: storedUuid,
  requestedBy: principal,
  requestedAt: epochMs,
  status: z.enum(commandStatuses),
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
        changes: storedJsonObject.nullable(),
      }),
      asked: z.boolean(),
    })
    .nullable(),
  confirmedBy: principal.nullable(),
  delivery: z
    .strictObject({
      dispatchedAt: epochMs,
      expiresAt: epochMs,
      firstWrittenAt: epochMs.nullable(),
      sessionId: z.string().nullable(),
      writes: count,
      supplement: storedJsonObject.optional(),
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
};

const stored = z.strictObject({
  ...common,
  origin: z.strictObject({
    requestId: z.string(),
    plan: z
      .strictObject({
        id: storedUuid,
        stepId: z.string(),
        compensation: z.strictObject({ action: z.string(), params: storedJsonObject }).nullable(),
      })
      .nullable(),
  }),
});
const stored1 = z.strictObject({ ...common, requestId: z.string() });

const toStored = ({ fixed, live }: CommandContext): StoredContext => ({
  fixed: fixed as unknown as JsonObject,
  live: live as unknown as JsonObject,
});

/** A stored context in its two parts. */
function partsOf({ status, delivery, answer, verification, ...fixed }: z.infer<typeof stored>): CommandContext {
  return { fixed, live: { status, delivery, answer, verification } } as CommandContext;
}

type Timed = 'confirmationOver' | 'ttlOver' | 'answerOver' | 'lateWordOver' | 'verificationOver';

const reasons: Record<Timed, string> = {
  confirmationOver: 'not confirmed in time',
  ttlOver: 'not written within ttl_s',
  answerOver: 'no final ack within timeout_s',
  lateWordOver: 'no late ack within 24 h',
  verificationOver: 'not verified within verify_within_s',
};

/** Records only the change; acks and parameters are stored in the context. */
function note(event: CommandEvent, after: CommandContext): JsonObject | null {
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
      return { word: event.ack.status, late: after.live.answer.late, stray_words: after.live.answer.strayWords };
    case 'state.observed':
      return { matches: event.matches };
    default: {
      const [, , timer] = (event as MachineEvent).type.split('.');
      return { reason: reasons[timer as Timed] ?? null };
    }
  }
}

function journal(
  event: MachineEvent,
  before: Snapshot<CommandContext> | null,
  after: Snapshot<CommandContext>,
): JournalNote | null {
  if (before === after || isProgress(event, before, after)) return null;
  return { data: note(event as CommandEvent, after.context) };
}

/** Progress reports may be frequent: the context stores the last one, the journal none. */
const isProgress = (event: MachineEvent, before: Snapshot<CommandContext> | null, after: Snapshot<CommandContext>) =>
  event.type === 'ack.received' &&
  before?.context.live.status === 'in_progress' &&
  after.context.live.status === 'in_progress';

export const commandDefinition: MachineDefinition<CommandContext> = {
  kind: 'command',
  version: 2,
  machine: commandMachine,
  tenantOf: (context) => context.fixed.tenantId,
  toStored,
  fromStored: (json) => partsOf(stored.parse(json)),
  columns(snapshot) {
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

export const commandDefinitionV1: MachineDefinition<CommandContext> = {
  ...commandDefinition,
  version: 1,
  toStored(context) {
    const { fixed, live } = toStored(context);
    const { origin: _, ...rest } = fixed;
    return { fixed: { ...rest, requestId: context.fixed.origin.requestId }, live };
  },
  fromStored(json) {
    const { requestId, ...rest } = stored1.parse(json);
    return partsOf({ ...rest, origin: { requestId, plan: null } });
  },
};
