import { type CommandStatus, DEFAULT_VERIFY_WITHIN_S } from '../domain/command.ts';
import { expectedFirmware, FIRMWARE_VERIFY_WITHIN_S } from '../domain/firmware-verification.ts';
import { dispatchLimits, type GatewayFacts, judge, mayConfirm, type Verdict } from '../domain/gateway.ts';
import { jsonEqual } from '../domain/json/value.ts';
import type { Compensation } from '../domain/plan.ts';
import type { ConfirmationRules } from '../domain/policy.ts';
import type { Refusal } from '../domain/refusals.ts';
import { expectedState, namedProperties } from '../domain/twin.ts';
import type { EpochMs, Json, JsonObject, Milliseconds, Principal } from '../domain/values.ts';
import type { Approval, CommandContext, CommandEvent, CommandFixed, Confirmation } from './command-types.ts';

// The judgement of a request for a command, and of its confirmation, by the safety gateway.

/** A command that the gateway lets pass, with the data it needs from the manifest. */
export interface Passed {
  kind: 'allowed' | 'confirmation';
  reason: string;
  expected: JsonObject | null;
  withinMs: Milliseconds;
  /** The principal who confirmed this compensation in advance, together with its step. */
  approvedBy: Principal | null;
}
export interface Refused {
  kind: 'refused';
  refusal: Refusal;
}
export type Judgement = Passed | Refused;

/** Raised by the machine within one transition to synchronize its regions; never sent from outside. */
export type RaisedCommandEvent =
  | { type: 'self.judged'; at: EpochMs; judgement: Judgement; cause: Extract<CommandEvent, { type: 'request' }> }
  | { type: 'self.judged_again'; at: EpochMs; judgement: Judgement; cause: Extract<CommandEvent, { type: 'confirm' }> }
  /** The lifecycle's status changed; the new one is `context.status`. */
  | { type: 'self.moved'; at: EpochMs }
  /** Late acks are no longer accepted: the outcome of the timed-out command stays unknown. */
  | { type: 'self.closed'; at: EpochMs };

export type AnyCommandEvent = CommandEvent | RaisedCommandEvent;
export type CommandEventOf<Type extends AnyCommandEvent['type']> = Extract<AnyCommandEvent, { type: Type }>;

export function judgeRequest(event: CommandEventOf<'request'>): CommandEventOf<'self.judged'> {
  const { command, facts, approval } = event;
  const { action, ttlS, timeoutS, sealedParams } = command;
  const params = sealedParams === undefined ? command.params : facts.params;
  const approvedBy = approval === undefined ? null : approverOf(approval, event);
  const judgement = judgeFacts({ ...facts, action, params, confirmed: approvedBy !== null }, ttlS, timeoutS);
  return {
    type: 'self.judged',
    at: event.at,
    judgement: includeCriticalCompensation(judgement, approvedBy, event),
    cause: event,
  };
}

/**
 * The principal who confirmed the step, if that confirmation covers this compensation: same plan, step, device, action,
 * parameters and manifest version. Otherwise the compensation needs a separate confirmation.
 */
function approverOf(approval: Approval, { command, facts }: CommandEventOf<'request'>): Principal | null {
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

/** A step with a critical compensation is confirmed together with it, before it runs. */
function includeCriticalCompensation(
  judgement: Judgement,
  approvedBy: Principal | null,
  event: CommandEventOf<'request'>,
): Judgement {
  if (judgement.kind === 'refused') return judgement;
  const compensation = criticalCompensation(event);
  if (compensation === null) return { ...judgement, approvedBy };
  const compensationReason = `Its compensation '${compensation.action}' is critical and needs confirmation.`;
  const reason = judgement.kind === 'confirmation' ? `${judgement.reason} ${compensationReason}` : compensationReason;
  return { ...judgement, kind: 'confirmation', reason };
}

export function criticalCompensation({ command, facts }: CommandEventOf<'request'>): Compensation | null {
  const compensation = command.origin.plan?.compensation ?? null;
  const capability = facts.manifest?.capabilities.find(({ action }) => action === compensation?.action);
  return capability?.safetyClass === 'CRITICAL' ? compensation : null;
}

/**
 * Checks the confirmation, then judges the command again. A refusal by either does not consume the token. The time
 * limits of the request stay in effect.
 */
export function judgeConfirmed(
  context: CommandContext,
  event: CommandEventOf<'confirm'>,
): CommandEventOf<'self.judged_again'> {
  return { type: 'self.judged_again', at: event.at, judgement: judgeConfirmation(context, event), cause: event };
}

function judgeConfirmation(context: CommandContext, event: CommandEventOf<'confirm'>): Judgement {
  const { action } = context.fixed;
  const params = context.live.sealedParams == null ? context.fixed.params : event.facts.params;
  const refusal = confirmationRefusal(context, event);
  if (refusal !== null) return { kind: 'refused', refusal };
  const judgement = judgeFacts({ ...event.facts, action, params, confirmed: true });
  if (judgement.kind === 'refused' || isPreviewed(context, event)) return judgement;
  return { kind: 'refused', refusal: { code: 'DRY_RUN_REQUIRED', detail: EFFECT_CHANGED } };
}

export const EFFECT_CHANGED =
  'The effect of the command has changed since its preview. Confirm again with the preview_hash of the new preview.';

/** Whether the command still has the effect that is confirmed. Earlier versions stored the whole state and no device. */
function isPreviewed({ fixed }: CommandContext, { effect: { preview, isNamed } }: CommandEventOf<'confirm'>): boolean {
  if (isNamed !== null) return isNamed;
  const requested = namedProperties((fixed.confirmation as Confirmation).preview);
  const { device, ...effect } = preview;
  const confirmed = requested.device === undefined ? effect : preview;
  return jsonEqual(requested as unknown as Json, confirmed as unknown as Json);
}

/** A requested dry run of an action that needs no confirmation. */
export const isNormalDryRun = ({ confirmation, safetyClass }: CommandFixed): boolean =>
  confirmation?.asked === true && safetyClass === 'NORMAL';

function confirmationRefusal(context: CommandContext, event: CommandEventOf<'confirm'>): Refusal | null {
  const { requestedBy, manifestVersion } = context.fixed;
  const { at, by, tokenHash, rules, agentKey = false, facts } = event;
  const confirmation = context.fixed.confirmation as Confirmation;
  if (at >= confirmationDeadline(context.fixed, rules)) {
    return tokenHash === null
      ? notAwaitingConfirmation('expired')
      : confirmationFailed('The confirmation has expired. Request the command again.');
  }
  const claim = tokenHash === null ? { inbox: true as const } : { holdsToken: tokenHash === confirmation.tokenHash };
  const normalDryRun = isNormalDryRun(context.fixed);
  const allowed = mayConfirm(rules, requestedBy, by, { ...claim, agentKey, normalDryRun });
  if (!allowed.ok) return allowed.refusal;
  if (facts.manifest === null || facts.manifest.version === manifestVersion) return null;
  return confirmationFailed("The device's manifest has changed since the request.");
}

/** End of the time to confirm a waiting command: a shorter one of the policy applies to it at once. */
export const confirmationDeadline = (
  { confirmation, requestedAt }: Pick<CommandFixed, 'confirmation' | 'requestedAt'>,
  { confirm_ttl_s }: Pick<ConfirmationRules, 'confirm_ttl_s'>,
): EpochMs => Math.min((confirmation as Confirmation).expiresAt, requestedAt + confirm_ttl_s * 1_000);

export const confirmationFailed = (detail: string): Refusal => ({ code: 'CONFIRMATION_FAILED', detail });

export const notAwaitingConfirmation = (status: CommandStatus): Refusal => ({
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
  const limits = dispatchLimits(capability, ttlS, timeoutS);
  if (!limits.ok) return { kind: 'refused', refusal: limits.refusal };
  const state = expectedState(capability.expectedState, facts.params);
  const firmware = expectedFirmware(facts);
  const withinS = state === null && firmware !== null ? FIRMWARE_VERIFY_WITHIN_S : DEFAULT_VERIFY_WITHIN_S;
  return {
    kind,
    reason: verdict.kind === 'confirmation' ? verdict.reason : '',
    expected: state ?? firmware,
    withinMs: (capability.verify_within_s ?? withinS) * 1_000,
    approvedBy: null,
  };
}
