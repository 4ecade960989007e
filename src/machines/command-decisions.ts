import {
  type AckStatus,
  type CommandStatus,
  DEFAULT_TIMEOUT_S,
  DEFAULT_TTL_S,
  DEFAULT_VERIFY_WITHIN_S,
  LATE_ACK_MS,
} from '../domain/command.ts';
import { dispatchLimits, type GatewayFacts, judge, mayConfirm, type Verdict } from '../domain/gateway.ts';
import { jsonEqual } from '../domain/json/value.ts';
import { type Compensation, outcomeOf } from '../domain/plan.ts';
import type { Refusal } from '../domain/refusals.ts';
import { expectedState } from '../domain/twin.ts';
import type { EpochMs, JsonObject, Milliseconds, Principal } from '../domain/values.ts';
import type {
  Answer,
  Approval,
  CommandContext,
  CommandEvent,
  Confirmation,
  Delivery,
  PlanOrigin,
  Verification,
} from './command-types.ts';
import { type Decision, emit, emitRefusal } from './decision.ts';
import type { Output } from './outputs.ts';

// What the command's chart decides, as pure functions; where it goes with that is in command.ts.

/** What the gateway lets pass, with all that the command will need of the manifest. */
export interface Passed {
  kind: 'allowed' | 'confirmation';
  reason: string;
  expected: JsonObject | null;
  withinMs: Milliseconds;
  /** Confirmed beforehand, with the step that it undoes, by this principal. */
  approvedBy: Principal | null;
}
export interface Refused {
  kind: 'refused';
  refusal: Refusal;
}
export type Judgement = Passed | Refused;

/** Raised by the command itself within one transition, so that both regions learn of it; never sent from outside. */
export type RaisedEvent =
  | { type: 'self.judged'; at: EpochMs; judgement: Judgement; asked: Extract<CommandEvent, { type: 'request' }> }
  | { type: 'self.judged_again'; at: EpochMs; judgement: Judgement; asked: Extract<CommandEvent, { type: 'confirm' }> }
  /** The lifecycle has another status now: `context.status`. */
  | { type: 'self.moved'; at: EpochMs }
  /** No late word counts any more: what a command that timed out did stays unknown. */
  | { type: 'self.closed'; at: EpochMs };

export type AnyCommandEvent = CommandEvent | RaisedEvent;
export type EventOf<Type extends AnyCommandEvent['type']> = Extract<AnyCommandEvent, { type: Type }>;
type Decided = Decision<CommandContext>;
type Moment = { at: EpochMs };

/** Counted, not kept: beyond this a device's words on a command that is over leave no trace. */
export const MAX_LATE_ACKS = 32;

export function judgeRequest(event: EventOf<'request'>): EventOf<'self.judged'> {
  const { command, facts, approval } = event;
  const { action, params, ttlS, timeoutS } = command;
  const approvedBy = approval === undefined ? null : approverOf(approval, event);
  const judgement = judgeFacts({ ...facts, action, params, confirmed: approvedBy !== null }, ttlS, timeoutS);
  return {
    type: 'self.judged',
    at: event.at,
    judgement: includeCriticalCompensation(judgement, approvedBy, event),
    asked: event,
  };
}

/**
 * Who confirmed the step that this command undoes, where that covered just this: the same plan and step, device, action and
 * parameters, and the manifest as it was. Anything else asks for a confirmation of its own.
 */
function approverOf(approval: Approval, { command, facts }: EventOf<'request'>): Principal | null {
  const { plan } = command.origin;
  const { plan: approved } = approval.origin;
  const covers =
    plan !== null &&
    approved?.compensation != null &&
    approval.tenantId === command.tenantId &&
    approval.deviceId === command.deviceId &&
    approved.id === plan.id &&
    approved.stepId === plan.stepId &&
    approved.compensation.action === command.action &&
    jsonEqual(approved.compensation.params, command.params) &&
    facts.manifest !== null &&
    approval.manifestVersion === facts.manifest.version;
  return covers ? approval.confirmedBy : null;
}

/** A step whose compensation is critical is asked for together with it, before anything happens. */
function includeCriticalCompensation(
  judgement: Judgement,
  approvedBy: Principal | null,
  event: EventOf<'request'>,
): Judgement {
  if (judgement.kind === 'refused') return judgement;
  const undo = criticalCompensation(event);
  if (undo === null) return { ...judgement, approvedBy };
  const why = `'${undo.action}', which would undo it, is critical and needs confirmation.`;
  const reason = judgement.kind === 'confirmation' ? `${judgement.reason} ${why}` : why;
  return { ...judgement, kind: 'confirmation', reason };
}

function criticalCompensation({ command, facts }: EventOf<'request'>): Compensation | null {
  const undo = command.origin.plan?.compensation ?? null;
  const capability = facts.manifest?.capabilities.find(({ action }) => action === undo?.action);
  return capability?.safetyClass === 'CRITICAL' ? undo : null;
}

/**
 * A confirmation that does not count is refused before the gateway looks again. Neither uses the token up. The time
 * limits stay those of the request.
 */
export function judgeConfirmed(context: CommandContext, event: EventOf<'confirm'>): EventOf<'self.judged_again'> {
  const { action, params } = context;
  const refusal = confirmationRefusal(context, event);
  const judgement: Judgement = refusal
    ? { kind: 'refused', refusal }
    : judgeFacts({ ...event.facts, action, params, confirmed: true });
  return { type: 'self.judged_again', at: event.at, judgement, asked: event };
}

function confirmationRefusal(context: CommandContext, event: EventOf<'confirm'>): Refusal | null {
  const { requestedBy, manifestVersion } = context;
  const { at, by, tokenHash, policy, facts } = event;
  const confirmation = context.confirmation as Confirmation;
  if (at >= confirmation.expiresAt) {
    return tokenHash === null
      ? notAwaitingConfirmation('expired')
      : confirmationFailed('The confirmation came too late.');
  }
  const claim = tokenHash === null ? { inbox: true as const } : { holdsToken: tokenHash === confirmation.tokenHash };
  const allowed = mayConfirm(policy, requestedBy, by, claim);
  if (!allowed.ok) return allowed.refusal;
  if (facts.manifest === null || facts.manifest.version === manifestVersion) return null;
  return confirmationFailed("The device's manifest has changed since the request.");
}

const confirmationFailed = (detail: string): Refusal => ({ code: 'CONFIRMATION_FAILED', detail });

const notAwaitingConfirmation = (status: CommandStatus): Refusal => ({
  code: 'ILLEGAL_TRANSITION',
  detail: `The command is ${status} and does not wait for a confirmation.`,
});

function judgeFacts(facts: GatewayFacts, ttlS?: number, timeoutS?: number): Judgement {
  const verdict = judge(facts);
  return verdict.kind === 'refused' ? verdict : passed(verdict, facts, ttlS, timeoutS);
}

function passed(
  verdict: Exclude<Verdict, { kind: 'refused' }>,
  facts: GatewayFacts,
  ttlS?: number,
  timeoutS?: number,
): Judgement {
  const { capability, kind } = verdict;
  const limits = dispatchLimits(capability.safetyClass, ttlS, timeoutS);
  if (!limits.ok) return { kind: 'refused', refusal: limits.refusal };
  return {
    kind,
    reason: verdict.kind === 'confirmation' ? verdict.reason : '',
    expected: expectedState(capability.expectedState, facts.params),
    withinMs: (capability.verify_within_s ?? DEFAULT_VERIFY_WITHIN_S) * 1_000,
    approvedBy: null,
  };
}

/** What is known of every command, a refused one too. */
export function recordRequest(context: CommandContext, { at, judgement, asked }: EventOf<'self.judged'>): Decided {
  const { ttlS = DEFAULT_TTL_S, timeoutS = DEFAULT_TIMEOUT_S, ...command } = asked.command;
  const { plan } = command.origin;
  const manifest = asked.facts.manifest;
  const capability = manifest?.capabilities.find((one) => one.action === command.action);
  const changes: Partial<CommandContext> = {
    ...command,
    ...(plan && { origin: { ...command.origin, plan: { ...plan, compensation: criticalCompensation(asked) } } }),
    requestedAt: at,
    safetyClass: capability?.safetyClass ?? null,
    manifestVersion: manifest?.version ?? null,
    limits: { ttlMs: ttlS * 1_000, timeoutMs: timeoutS * 1_000 },
  };
  if (judgement.kind === 'refused') {
    const { code, detail } = judgement.refusal;
    changes.refusal = { code, detail };
  } else {
    const { expected, withinMs } = judgement;
    changes.verification = { ...context.verification, expected, withinMs };
  }
  return { changes, outputs: [] };
}

export function awaitConfirmation(context: CommandContext, { at, judgement, asked }: EventOf<'self.judged'>): Decided {
  const { tokenHash, ttlS, preview } = asked.confirmation;
  const { reason } = judgement as Passed;
  const confirmation = { tokenHash, expiresAt: at + ttlS * 1_000, reason, preview, asked: asked.facts.dryRun };
  return {
    changes: { confirmation },
    outputs: [confirmationChanged(context, confirmation, 'awaiting_confirmation', at)],
  };
}

/** Nobody can confirm it any more; `status` is what the command becomes with that. */
export const closeConfirmation = (
  context: CommandContext,
  { at }: Moment,
  { status }: { status: CommandStatus },
): Decided => ({
  changes: { confirmation: null },
  outputs: [confirmationChanged(context, context.confirmation as Confirmation, status, at)],
});

const confirmationChanged = (
  { tenantId, deviceId, id: commandId }: CommandContext,
  { expiresAt }: Confirmation,
  status: CommandStatus,
  at: EpochMs,
): Output => ({ type: 'confirmation.changed', tenantId, deviceId, commandId, status, expiresAt, at });

/** The chart comes here only with a refusal. */
export const refuse = (_: CommandContext, { judgement }: EventOf<'self.judged_again'>): Decided =>
  emit({ type: 'refused', refusal: (judgement as Refused).refusal });

/** A token that finds nothing is wrong; an approver named the command, whose state is. */
export const refuseConfirmation = ({ status }: CommandContext, { tokenHash }: EventOf<'confirm'>): Decided =>
  emit({
    type: 'refused',
    refusal: tokenHash === null ? notAwaitingConfirmation(status) : confirmationFailed('There is nothing to confirm.'),
  });

export const refuseCancel = ({ status }: CommandContext): Decided =>
  emitRefusal('ILLEGAL_TRANSITION', `The command is ${status} and cannot be cancelled.`);

export const refuseRefusal = ({ status }: CommandContext): Decided =>
  emit({ type: 'refused', refusal: notAwaitingConfirmation(status) });

/** The clock of `ttl_s` starts here, for a confirmed command at its confirmation. */
export function dispatch({ limits }: CommandContext, event: EventOf<'self.judged' | 'self.judged_again'>): Decided {
  const { at } = event;
  const confirmedBy = event.type === 'self.judged_again' ? event.asked.by : (event.judgement as Passed).approvedBy;
  const { supplement } = event.asked.facts;
  const delivery = {
    ...{ dispatchedAt: at, expiresAt: at + limits.ttlMs, firstWrittenAt: null, sessionId: null, writes: 0 },
    ...(supplement && { supplement }),
  };
  return { changes: { confirmedBy, delivery }, outputs: [] };
}

type Writing = EventOf<'self.judged' | 'self.judged_again' | 'session.ready'>;

export const hasSession = (_: CommandContext, { asked }: EventOf<'self.judged' | 'self.judged_again'>): boolean =>
  asked.session !== null;

/** Committed as written before the bytes leave; `timeout_s` counts from the first time. */
export function write(context: CommandContext, event: Writing): Decided {
  const { tenantId, deviceId, id, messageId, origin, action } = context;
  const { requestId } = origin;
  const { sessionId } = event.type === 'session.ready' ? event : (event.asked.session as { sessionId: string });
  const delivery = deliveryOf(context);
  const { dispatchedAt, expiresAt, firstWrittenAt, writes, supplement } = delivery;
  const params = supplement ? { ...context.params, ...supplement } : context.params;
  const output: Output = {
    type: 'command.write',
    tenantId,
    deviceId,
    commandId: id,
    sessionId,
    critical: context.safetyClass === 'CRITICAL',
    message: { messageId, requestId, action, params, issuedAt: dispatchedAt, expiresAt },
  };
  const written = { ...delivery, sessionId, firstWrittenAt: firstWrittenAt ?? event.at, writes: writes + 1 };
  return { changes: { delivery: written }, outputs: [output] };
}

/** Milliseconds until each of the command's deadlines; they are absolute, so a timer set late is not longer for it. */
export const confirmationLeft = ({ confirmation }: CommandContext, { at }: Moment): Milliseconds =>
  msUntil((confirmation as Confirmation).expiresAt, at);
export const ttlLeft = (context: CommandContext, { at }: Moment): Milliseconds =>
  msUntil(deliveryOf(context).expiresAt, at);
export const answerLeft = (context: CommandContext, { at }: Moment): Milliseconds =>
  msUntil((deliveryOf(context).firstWrittenAt as EpochMs) + context.limits.timeoutMs, at);

/** The chart speaks of a delivery only after the dispatch. */
const deliveryOf = ({ delivery }: CommandContext): Delivery => delivery as Delivery;

const msUntil = (deadline: EpochMs, at: EpochMs): Milliseconds => Math.max(0, deadline - at);

export const mayWrite = ({ delivery }: CommandContext, { at }: Moment): boolean =>
  at < (delivery as Delivery).expiresAt;

/** A CRITICAL command is written once, ever; another at most once per session. */
export const mayWriteAgain = (context: CommandContext, event: EventOf<'session.ready'>): boolean =>
  context.safetyClass !== 'CRITICAL' && deliveryOf(context).sessionId !== event.sessionId && mayWrite(context, event);

/** No byte of the only write left, so it never happened. */
export const isOnlyWrite = (context: CommandContext, { sessionId }: EventOf<'write.undone'>): boolean =>
  deliveryOf(context).writes === 1 && deliveryOf(context).sessionId === sessionId;

export const undoWrite = (context: CommandContext): Decided => ({
  changes: { delivery: { ...deliveryOf(context), sessionId: null, firstWrittenAt: null, writes: 0 } },
  outputs: [],
});

const updateAnswer = (context: CommandContext, said: Partial<Answer>): Decided => ({
  changes: { answer: { ...context.answer, ...said } },
  outputs: [],
});

export function recordAck(context: CommandContext, { ack }: EventOf<'ack.received'>): Decided {
  const { answer } = context;
  const { progress = answer.progress, result = answer.result, error = answer.error } = ack;
  return updateAnswer(context, { progress, result, error, late: answer.timedOutAt !== null });
}

export const stampTimeout = (context: CommandContext, { at }: Moment): Decided =>
  updateAnswer(context, { timedOutAt: at });

export const countLateAck = (context: CommandContext): Decided =>
  updateAnswer(context, { strayWords: context.answer.strayWords + 1 });

const isFromOwnDevice = (context: CommandContext, { deviceId }: { deviceId: string }): boolean =>
  context.deviceId === deviceId;

export const hasAckStatus = (
  context: CommandContext,
  event: EventOf<'ack.received'>,
  { word }: { word: AckStatus },
): boolean => event.ack.status === word && isFromOwnDevice(context, event) && isAckInTime(context, event);

const isAckInTime = ({ answer }: CommandContext, { at }: Moment): boolean =>
  answer.timedOutAt === null || at - answer.timedOutAt <= LATE_ACK_MS;

export const canCountLateAck = (context: CommandContext, event: EventOf<'ack.received'>): boolean =>
  isFromOwnDevice(context, event) && context.answer.strayWords < MAX_LATE_ACKS;

export const announce = (context: CommandContext, { at }: Moment): Decided => {
  const { tenantId, deviceId, id: commandId, status } = context;
  const verification = context.verification.status;
  const changed: Output = { type: 'command.changed', tenantId, deviceId, commandId, status, verification, at };
  const { plan } = context.origin;
  return plan !== null && isRelevantToPlan(context) ? emit(notifyPlan(context, plan), changed) : emit(changed);
};

/** That it waits, that it is dispatched, and what it came to. */
const isRelevantToPlan = ({ status, verification }: CommandContext): boolean =>
  outcomeOf(status, verification.status) !== 'going' || (status === 'dispatched' && verification.status !== 'verified');

function notifyPlan(
  { id: commandId, status, verification, safetyClass, refusal }: CommandContext,
  plan: PlanOrigin,
): Output {
  const critical = safetyClass === 'CRITICAL';
  return {
    type: 'actor.tell',
    to: { kind: 'plan', id: plan.id },
    event: { type: 'command.moved', commandId, status, verification: verification.status, critical, refusal },
  };
}

export const isOfPlan = ({ origin }: CommandContext, { planId }: EventOf<'plan.withdrawn'>): boolean =>
  origin.plan?.id === planId;

/** Of a command that was not refused: one that was has ended in any case. */
export const hasNoExpectedState = (_: CommandContext, { judgement }: EventOf<'self.judged'>): boolean =>
  (judgement as Passed).expected === null;

export const watch = ({ deviceId, id: commandId, verification }: CommandContext): Decided =>
  emit({ type: 'verification.watch', deviceId, commandId, expected: verification.expected as JsonObject });

export const unwatch = ({ deviceId, id: commandId }: CommandContext): Decided =>
  emit({ type: 'verification.unwatch', deviceId, commandId });

export const matches = (context: CommandContext, event: EventOf<'state.observed'>): boolean =>
  event.matches && isFromOwnDevice(context, event);
export const differs = (context: CommandContext, event: EventOf<'state.observed'>): boolean =>
  !event.matches && isFromOwnDevice(context, event);

export const updateVerification = (context: CommandContext, { at }: Moment, found: Partial<Verification>) => ({
  verification: { ...context.verification, ...found, checkedAt: at },
});

export const observe = (context: CommandContext, event: EventOf<'state.observed'>): Decided => ({
  changes: updateVerification(context, event, { observed: event.observed }),
  outputs: [],
});
