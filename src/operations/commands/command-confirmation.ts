import { z } from 'zod';
import { mayConfirm } from '../../domain/gateway.ts';
import { iso } from '../../domain/iso-time.ts';
import { type ConfirmationRules, rulesSince, type SafetyPolicy } from '../../domain/policy.ts';
import { done, type Outcome, refuse } from '../../domain/refusals.ts';
import { SealBroken } from '../../domain/sealing.ts';
import { uuid } from '../../domain/uuid-schema.ts';
import { type EpochMs, type JsonObject, type Principal, SYSTEM, type Uuid } from '../../domain/values.ts';
import { commandParamsPlace, openParams } from '../../domain/write-only-params.ts';
import { confirmationDeadline, isNormalDryRun } from '../../machines/command-judgement.ts';
import type { CommandContext, CommandEvent, CommandFixed } from '../../machines/command-types.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { usesAgentKey } from '../agent-keys.ts';
import { findRequestedRelease } from '../firmware/firmware-facts.ts';
import { commandRefusal } from '../key-reach.ts';
import type { Answer, Call, Caller, Services } from '../operation.ts';
import { requesterRefusal } from '../requester-authority.ts';
import { sendToActor } from '../send-to-actor.ts';
import { dispatchedBody, previewOf } from './command-request.ts';
import { type CommittedCommand, hashPreview, type previewBody, previewChanged } from './command-view.ts';
import {
  type CommittedTenant,
  earlyRefusal,
  gatewayFacts,
  loadTarget,
  readTenant,
  type Target,
} from './gateway-facts.ts';

// Confirmation of a waiting command, with its token or from the inbox. The command's machine decides by the current
// policy; the policy check here only keeps stored answers from refused callers.

export interface ConfirmationRequest {
  tenant: CommittedTenant;
  target: Target;
  command: CommittedCommand;
  /** Null from the inbox, where identity and policy decide. */
  tokenHash: string | null;
  /** Of the preview that is confirmed; undefined: that of the request. */
  previewHash: string | undefined;
}

/** Input of an operation that confirms a command. */
export const confirmedPreview = {
  preview_hash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'must be the preview_hash of a preview')
    .optional()
    .meta({ description: 'The `preview_hash` of the preview that is confirmed. Default: that of the request' }),
};

/** Entry of `Operation.responses` for the status 409 of a confirmation. */
const previewChangedResponse = {
  when: 'The effect of the command has changed since its preview: confirm again with the new `preview_hash`',
  body: previewChanged.extend({ code: z.literal('DRY_RUN_REQUIRED'), request_id: uuid }).meta({ id: 'PreviewChanged' }),
};

export const confirmedBody = z.union([dispatchedBody, previewChanged]);

export const confirmationResponses = {
  202: { when: 'The command is dispatched', body: dispatchedBody },
  409: previewChangedResponse,
};

/**
 * The tenant and the device of a command to be confirmed. Refuses for a revoked device, whose commands were cancelled.
 */
export async function loadConfirmationTarget(
  services: Pick<Services, 'actors' | 'flags' | 'manifests' | 'sessions'>,
  caller: Caller,
  deviceId: Uuid,
): Promise<Outcome<Pick<ConfirmationRequest, 'tenant' | 'target'>>> {
  const tenant = await readTenant(services, caller);
  const target = await loadTarget(services, caller, deviceId);
  const refusal = earlyRefusal(services, tenant, target.ok ? target.value.device : null);
  if (refusal !== null) return { ok: false, refusal };
  return target.ok ? done({ tenant, target: target.value }) : target;
}

export async function sendConfirmation(
  services: Pick<Services, 'actors' | 'agentTokens' | 'artifacts' | 'clock' | 'flags' | 'open' | 'store' | 'users'>,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
  { tenant, target, command, tokenHash, previewHash }: ConfirmationRequest,
): Promise<Outcome<Answer<z.infer<typeof confirmedBody>>>> {
  const { fixed, live } = command.snapshot.context;
  const { id, tenantId, messageId, action, params, requestedBy, confirmation } = fixed;
  const restricted = commandRefusal(caller, fixed);
  if (restricted !== null) return restricted;
  const isWaiting = live.status === 'awaiting_confirmation';
  const unauthorized = isWaiting ? await requesterRefusal(services, tenantId, requestedBy, 'user') : null;
  if (unauthorized !== null) return unauthorized;
  const sent = paramsToSend(services, command.snapshot.context);
  if (sent === null) return refuse('CONFIRMATION_FAILED', UNREADABLE);
  const since = await waitingSince(services, fixed);
  const release = await findRequestedRelease(services, caller, { action, params: sent });
  const agentKey = await usesAgentKey(services, [requestedBy, caller.principal]);
  // Read last, so that a policy changed during the lookups above applies.
  const current = services.actors.peek<TenantContext>(tenant.ref) ?? tenant;
  const rules = confirmationRules(current, fixed, since);
  const preview = previewOf(services, target, { action, params, release });
  const event: CommandEvent = {
    type: 'confirm',
    at: services.clock.now(),
    by: caller.principal,
    tokenHash,
    rules,
    agentKey,
    facts: gatewayFacts(services, current, target, { action, params: sent, dryRun: false, confirmed: true, release }),
    session: target.session,
    effect: { preview, isNamed: previewHash === undefined ? null : previewHash === hashPreview(preview) },
  };
  const answer = { body: { success: true as const, command_id: id, message_id: messageId } };
  const reply = await sendToActor(services, command.ref, event, () => idempotent?.toRow(answer));
  if (reply.ok) return done(answer);
  if (reply.refusal.code !== 'DRY_RUN_REQUIRED' || confirmation === null) return reply;
  const body = {
    status: 'dry_run_required' as const,
    reason: reply.refusal.detail,
    expires_at: iso(confirmationDeadline(fixed, rules)),
    command_id: id,
    preview: preview as z.infer<typeof previewBody>,
    preview_hash: hashPreview(preview),
  };
  return done({ status: 409, body });
}

const UNREADABLE =
  'The write-only parameters of the command cannot be decrypted with the keys of the service. Request the command again.';

/** The parameters with the values of `writeOnly` ones; null if they cannot be decrypted. */
function paramsToSend(services: Pick<Services, 'open'>, { fixed, live }: CommandContext): JsonObject | null {
  if (live.sealedParams == null) return fixed.params;
  try {
    return openParams(services, live.sealedParams, commandParamsPlace(fixed.id));
  } catch (error) {
    if (error instanceof SealBroken) return null;
    throw error;
  }
}

/**
 * Checks the current policy for this confirmer and a command requested by `requester`; without `requester`, checks only
 * what applies to every command.
 */
export async function checkConfirmPolicy(
  services: Pick<Services, 'agentTokens'>,
  tenant: CommittedTenant,
  { principal }: Caller,
  requester?: Principal,
): Promise<Outcome<null>> {
  if (requester === undefined) {
    const always = mayConfirm(policyOf(tenant), SYSTEM, principal, { inbox: true, normalDryRun: true });
    return always.ok ? done(null) : always;
  }
  const agentKey = await usesAgentKey(services, [requester, principal]);
  const allowed = mayConfirm(policyOf(tenant), requester, principal, { inbox: true, agentKey });
  return allowed.ok ? done(null) : allowed;
}

/** Checks all rules that apply to a waiting command. */
export async function checkCommandPolicy(
  services: Pick<Services, 'actors' | 'agentTokens'>,
  tenant: CommittedTenant,
  { principal }: Caller,
  { fixed }: CommandContext,
): Promise<Outcome<null>> {
  const rules = confirmationRules(tenant, fixed, await waitingSince(services, fixed));
  const agentKey = await usesAgentKey(services, [fixed.requestedBy, principal]);
  const claim = { inbox: true, agentKey, normalDryRun: isNormalDryRun(fixed) } as const;
  const allowed = mayConfirm(rules, fixed.requestedBy, principal, claim);
  return allowed.ok ? done(null) : allowed;
}

const policyOf = ({ snapshot }: CommittedTenant): SafetyPolicy => snapshot.context.fixed.policy;

/** When the command began to wait; for that of a plan, when the plan began. */
async function waitingSince(
  { actors }: Pick<Services, 'actors'>,
  { requestedAt, origin }: Pick<CommandFixed, 'requestedAt' | 'origin'>,
): Promise<EpochMs> {
  if (origin.plan === null) return requestedAt;
  const ref = { kind: 'plan', id: origin.plan.id } as const;
  const plan = actors.peek<PlanContext>(ref) ?? (await actors.read<PlanContext>(ref));
  return Math.min(requestedAt, plan?.snapshot.context.fixed.createdAt ?? requestedAt);
}

/** The rules for a waiting command. The time to confirm it counts from its request, also for that of a plan. */
export function confirmationRules(
  { snapshot }: CommittedTenant,
  { requestedAt }: Pick<CommandFixed, 'requestedAt'>,
  since = requestedAt,
): ConfirmationRules {
  const { policy, earlierRules = [] } = snapshot.context.fixed;
  const { confirm_by, agent_confirm_by } = rulesSince(policy, earlierRules, since);
  return { ...rulesSince(policy, earlierRules, requestedAt), confirm_by, agent_confirm_by };
}

/** Whether the requester of a command may also confirm it, by the current policy. */
export const mayConfirmOwn = async (
  services: Pick<Services, 'actors' | 'agentTokens'>,
  caller: Caller,
): Promise<boolean> =>
  (await checkConfirmPolicy(services, await readTenant(services, caller), caller, caller.principal)).ok;
