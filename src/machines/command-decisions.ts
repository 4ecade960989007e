import {
  type AckStatus,
  type CommandStatus,
  DEFAULT_TTL_S,
  isFinalCommandStatus,
  keepsSealedParams,
  LATE_ACK_MS,
  MAX_TIMEOUT_FACTOR,
  mayHaveActed,
} from '../domain/command.ts';
import { deviceErrorText } from '../domain/device-error-text.ts';
import { defaultTimeoutS } from '../domain/gateway.ts';
import { outcomeOf } from '../domain/plan.ts';
import type { EpochMs, JsonObject, Milliseconds } from '../domain/values.ts';
import {
  type AnyCommandEvent,
  type CommandEventOf,
  confirmationFailed,
  criticalCompensation,
  notAwaitingConfirmation,
  type Passed,
  type Refused,
} from './command-judgement.ts';
import type {
  CommandAcks,
  CommandContext,
  CommandFixed,
  CommandLive,
  Confirmation,
  Delivery,
  PlanOrigin,
  Verification,
} from './command-types.ts';
import { changeBoth, changeFixed, changeLive, type Decision, emit, emitRefusal } from './decision.ts';
import type { Output } from './outputs.ts';

// Decisions of the command machine, as pure functions. The chart is in command.ts, the judgement of a request in
// command-judgement.ts.

type Decided = Decision<CommandContext>;
type Timestamped = { at: EpochMs };

/** Acks of a final command are counted, not stored. Above this limit they are not counted either. */
export const MAX_LATE_ACKS = 32;

/** Records the data of every command, including a refused one. */
export function recordRequest(
  context: CommandContext,
  { at, judgement, cause }: CommandEventOf<'self.judged'>,
): Decided {
  const { ttlS = DEFAULT_TTL_S, timeoutS, sealedParams, ...command } = cause.command;
  const { plan } = command.origin;
  const manifest = cause.facts.manifest;
  const capability = manifest?.capabilities.find((one) => one.action === command.action);
  const fixed: Partial<CommandFixed> = {
    ...command,
    ...(plan && { origin: { ...command.origin, plan: { ...plan, compensation: criticalCompensation(cause) } } }),
    requestedAt: at,
    safetyClass: capability?.safetyClass ?? null,
    manifestVersion: manifest?.version ?? null,
    limits: { ttlMs: ttlS * 1_000, timeoutMs: (timeoutS ?? defaultTimeoutS(command.action, capability)) * 1_000 },
  };
  if (judgement.kind === 'refused') {
    const { code, detail } = judgement.refusal;
    fixed.refusal = { code, detail };
    const dropped = sealedParams !== undefined && { sealedParams: null };
    return { changes: changeBoth(context, fixed, { ...dropped }), outputs: [] };
  }
  const { expected, withinMs } = judgement;
  const verification = { ...context.live.verification, expected, withinMs };
  const sealed = sealedParams !== undefined && { sealedParams };
  return { changes: changeBoth(context, fixed, { verification, ...sealed }), outputs: [] };
}

/** Sets the status, and drops the sealed parameters where the command is not sent again. */
export function setStatus(context: CommandContext, { status }: { status: CommandStatus }): { live: CommandLive } {
  const drops = typeof context.live.sealedParams === 'string' && !keepsSealedParams(status);
  return changeLive(context, { status, ...(drops && { sealedParams: null }) });
}

export function awaitConfirmation(
  context: CommandContext,
  { at, judgement, cause }: CommandEventOf<'self.judged'>,
): Decided {
  const { tokenHash, ttlS, preview } = cause.confirmation;
  const { reason } = judgement as Passed;
  const confirmation = { tokenHash, expiresAt: at + ttlS * 1_000, reason, preview, asked: cause.facts.dryRun };
  return {
    changes: changeFixed(context, { confirmation }),
    outputs: [confirmationChanged(context, confirmation, 'awaiting_confirmation', at)],
  };
}

/** Closes the confirmation; `status` is the command's next status. */
export const closeConfirmation = (
  context: CommandContext,
  { at }: Timestamped,
  { status }: { status: CommandStatus },
): Decided => ({
  changes: changeFixed(context, { confirmation: null }),
  outputs: [confirmationChanged(context, context.fixed.confirmation as Confirmation, status, at)],
});

const confirmationChanged = (
  { fixed: { tenantId, deviceId, id: commandId } }: CommandContext,
  { expiresAt, asked }: Confirmation,
  status: CommandStatus,
  at: EpochMs,
): Output => ({
  ...{ type: 'confirmation.changed', tenantId, deviceId, commandId, status, expiresAt },
  ...(asked && { dryRun: true }),
  at,
});

/** The chart uses this action only for a refused judgement. */
export const refuse = (_: CommandContext, { judgement }: CommandEventOf<'self.judged_again'>): Decided =>
  emit({ type: 'refused', refusal: (judgement as Refused).refusal });

/** With a token, the token is wrong; from the inbox, the command is in the wrong state. */
export const refuseConfirmation = (
  { live: { status } }: CommandContext,
  { tokenHash }: CommandEventOf<'confirm'>,
): Decided =>
  emit({
    type: 'refused',
    refusal:
      tokenHash === null
        ? notAwaitingConfirmation(status)
        : confirmationFailed('The command does not wait for a confirmation.'),
  });

export const refuseCancel = ({ live: { status } }: CommandContext): Decided =>
  emitRefusal('ILLEGAL_TRANSITION', `The command is ${status} and cannot be cancelled.`);

export const refuseRefusal = ({ live: { status } }: CommandContext): Decided =>
  emit({ type: 'refused', refusal: notAwaitingConfirmation(status) });

/** Starts `ttl_s`; for a confirmed command, at its confirmation. */
export function dispatch(context: CommandContext, event: CommandEventOf<'self.judged' | 'self.judged_again'>): Decided {
  const { at } = event;
  const { limits } = context.fixed;
  const confirmedBy = event.type === 'self.judged_again' ? event.cause.by : (event.judgement as Passed).approvedBy;
  const { supplement } = event.cause.facts;
  const delivery = {
    ...{ dispatchedAt: at, expiresAt: at + limits.ttlMs, firstWrittenAt: null, sessionId: null, writes: 0 },
    ...(supplement && { supplement }),
  };
  return { changes: changeBoth(context, { confirmedBy }, { delivery }), outputs: [] };
}

const isCritical = ({ fixed }: CommandContext): boolean => fixed.safetyClass === 'CRITICAL';

type Writing = CommandEventOf<'self.judged' | 'self.judged_again' | 'session.ready'>;

export const hasSession = (
  _: CommandContext,
  { cause }: CommandEventOf<'self.judged' | 'self.judged_again'>,
): boolean => cause.session !== null;

/** Marks the command as written, which is committed before it is sent. `timeout_s` counts from the first write at first. */
export function write(context: CommandContext, event: Writing): Decided {
  const { tenantId, deviceId, id, messageId, origin, action, params } = context.fixed;
  const { sealedParams } = context.live;
  const { requestId } = origin;
  const { sessionId } = event.type === 'session.ready' ? event : (event.cause.session as { sessionId: string });
  const { dispatchedAt, expiresAt, firstWrittenAt, writes, supplement } = deliveryOf(context);
  const output: Output = {
    type: 'command.write',
    tenantId,
    deviceId,
    commandId: id,
    sessionId,
    critical: isCritical(context),
    message: {
      ...{ messageId, requestId, action, params, issuedAt: dispatchedAt, expiresAt },
      ...(sealedParams != null && { sealedParams }),
      ...(supplement && { supplement }),
    },
  };
  const changes = { sessionId, firstWrittenAt: firstWrittenAt ?? event.at, writes: writes + 1 };
  return { changes: updateDelivery(context, changes), outputs: [output] };
}

/**
 * Milliseconds until each of the command's deadlines. Deadlines are absolute, so a timer set late is not extended; only an
 * `in_progress` ack renews the timeout, within a limit that counts from the first write.
 */
export const confirmationLeft = ({ fixed: { confirmation } }: CommandContext, { at }: Timestamped): Milliseconds =>
  msUntil((confirmation as Confirmation).expiresAt, at);
export const ttlLeft = (context: CommandContext, { at }: Timestamped): Milliseconds =>
  msUntil(deliveryOf(context).expiresAt, at);
export function answerLeft(context: CommandContext, { type, at }: AnyCommandEvent): Milliseconds {
  const { timeoutMs } = context.fixed.limits;
  const firstWrittenAt = deliveryOf(context).firstWrittenAt as EpochMs;
  const renewedAt = type === 'ack.received' ? at : firstWrittenAt;
  return msUntil(Math.min(renewedAt + timeoutMs, firstWrittenAt + MAX_TIMEOUT_FACTOR * timeoutMs), at);
}

/** The chart uses the delivery only after the dispatch. */
const deliveryOf = ({ live: { delivery } }: CommandContext): Delivery => delivery as Delivery;
const updateDelivery = (context: CommandContext, changes: Partial<Delivery>) =>
  changeLive(context, { delivery: { ...deliveryOf(context), ...changes } });

const msUntil = (deadline: EpochMs, at: EpochMs): Milliseconds => Math.max(0, deadline - at);

export const mayWrite = ({ live: { delivery } }: CommandContext, { at }: Timestamped): boolean =>
  at < (delivery as Delivery).expiresAt;

/**
 * A CRITICAL command is written only once; others at most once per session, and not after sealed parameters were dropped.
 */
export const mayWriteAgain = (context: CommandContext, event: CommandEventOf<'session.ready'>): boolean =>
  !isCritical(context) &&
  context.live.sealedParams !== null &&
  deliveryOf(context).sessionId !== event.sessionId &&
  mayWrite(context, event);

/** The undone write was the only one, so the command was never sent. */
export const isOnlyWrite = (context: CommandContext, { sessionId }: CommandEventOf<'write.undone'>): boolean =>
  deliveryOf(context).writes === 1 && deliveryOf(context).sessionId === sessionId;

/** The undone write was not the first, so the device may have received the command in an earlier session. */
export const isLastOfSeveralWrites = (
  context: CommandContext,
  { sessionId }: CommandEventOf<'write.undone'>,
): boolean => deliveryOf(context).writes > 1 && deliveryOf(context).sessionId === sessionId;

/** The command may be written to the session again. `timeout_s` still counts from the first write. */
export const undoLastWrite = (context: CommandContext): Decided => ({
  changes: updateDelivery(context, { sessionId: null, writes: deliveryOf(context).writes - 1 }),
  outputs: [],
});

export const undoWrite = (context: CommandContext): Decided => ({
  changes: updateDelivery(context, { sessionId: null, firstWrittenAt: null, writes: 0 }),
  outputs: [],
});

const updateAnswer = (context: CommandContext, changes: Partial<CommandAcks>): Decided => ({
  changes: changeLive(context, { answer: { ...context.live.answer, ...changes } }),
  outputs: [],
});

export function recordAck(context: CommandContext, { ack }: CommandEventOf<'ack.received'>): Decided {
  const { answer } = context.live;
  const { progress = answer.progress, result = answer.result, error = answer.error } = ack;
  return updateAnswer(context, { progress, result, error, late: answer.timedOutAt !== null });
}

export const stampTimeout = (context: CommandContext, { at }: Timestamped): Decided =>
  updateAnswer(context, { timedOutAt: at });

export const countLateAck = (context: CommandContext): Decided =>
  updateAnswer(context, { strayWords: context.live.answer.strayWords + 1 });

const isFromOwnDevice = (context: CommandContext, { deviceId }: { deviceId: string }): boolean =>
  context.fixed.deviceId === deviceId;

export const hasAckStatus = (
  context: CommandContext,
  event: CommandEventOf<'ack.received'>,
  { status }: { status: AckStatus },
): boolean => event.ack.status === status && isFromOwnDevice(context, event) && isAckInTime(context, event);

const isAckInTime = ({ live: { answer } }: CommandContext, { at }: Timestamped): boolean =>
  answer.timedOutAt === null || at - answer.timedOutAt <= LATE_ACK_MS;

export const canCountLateAck = (context: CommandContext, event: CommandEventOf<'ack.received'>): boolean =>
  isFromOwnDevice(context, event) && context.live.answer.strayWords < MAX_LATE_ACKS;

export const announce = (context: CommandContext, { at }: Timestamped): Decided => {
  const { tenantId, deviceId, id: commandId, origin, refusal } = context.fixed;
  const { status, answer } = context.live;
  const verification = context.live.verification.status;
  const changed: Output = {
    ...{ type: 'command.changed', tenantId, deviceId, commandId, status, verification },
    ...(answer.progress !== null && { progress: answer.progress }),
    ...(refusal !== null && { refusal }),
    at,
  };
  const { plan } = origin;
  return plan !== null && isRelevantToPlan(context) ? emit(notifyPlan(context, plan), changed) : emit(changed);
};

/** A plan is notified when its command awaits confirmation, is dispatched, and has an outcome. */
const isRelevantToPlan = ({ live: { status, verification } }: CommandContext): boolean =>
  outcomeOf(status, verification.status) !== 'in_progress' ||
  (status === 'dispatched' && verification.status !== 'verified');

function notifyPlan(
  { fixed: { id: commandId, safetyClass, refusal }, live: { status, verification, answer } }: CommandContext,
  plan: PlanOrigin,
): Output {
  const critical = safetyClass === 'CRITICAL';
  const deviceError = status === 'failed' ? deviceErrorText(answer.error) : null;
  return {
    type: 'actor.tell',
    to: { kind: 'plan', id: plan.id },
    event: {
      ...{ type: 'command.moved', commandId, status, verification: verification.status, critical, refusal },
      ...(deviceError !== null && { deviceError }),
    },
  };
}

export const isOfPlan = (
  { fixed: { origin } }: CommandContext,
  { planId }: CommandEventOf<'plan.withdrawn'>,
): boolean => origin.plan?.id === planId;

/** Ended, and its device has not executed it. */
export const isEnded = ({ live: { status } }: CommandContext): boolean =>
  isFinalCommandStatus(status) && !mayHaveActed(status);

/** Used only for a command that was not refused; a refused one has ended anyway. */
export const hasNoExpectedState = (_: CommandContext, { judgement }: CommandEventOf<'self.judged'>): boolean =>
  (judgement as Passed).expected === null;

export const watch = ({ fixed: { deviceId, id: commandId }, live: { verification } }: CommandContext): Decided =>
  emit({ type: 'verification.watch', deviceId, commandId, expected: verification.expected as JsonObject });

export const unwatch = ({ fixed: { deviceId, id: commandId } }: CommandContext): Decided =>
  emit({ type: 'verification.unwatch', deviceId, commandId });

export const matches = (context: CommandContext, event: CommandEventOf<'state.observed'>): boolean =>
  event.matches && isFromOwnDevice(context, event);
export const differs = (context: CommandContext, event: CommandEventOf<'state.observed'>): boolean =>
  !event.matches && isFromOwnDevice(context, event);

export const updateVerification = (context: CommandContext, { at }: Timestamped, changes: Partial<Verification>) =>
  changeLive(context, { verification: { ...context.live.verification, ...changes, checkedAt: at } });

export const observe = (context: CommandContext, event: CommandEventOf<'state.observed'>): Decided => ({
  changes: updateVerification(context, event, { observed: event.observed }),
  outputs: [],
});
