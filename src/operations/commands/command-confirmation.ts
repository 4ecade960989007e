import { mayConfirm } from '../../domain/gateway.ts';
import { done, type Outcome } from '../../domain/refusals.ts';
import { SYSTEM, type Uuid } from '../../domain/values.ts';
import type { CommandEvent } from '../../machines/command-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { findRequestedRelease } from '../firmware/firmware-facts.ts';
import type { Call, Caller, Services } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import type { CommittedCommand } from './command-view.ts';
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
}

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
  services: Pick<Services, 'actors' | 'artifacts' | 'clock' | 'flags' | 'store'>,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
  { tenant, target, command, tokenHash }: ConfirmationRequest,
): Promise<Outcome<{ body: { success: true; command_id: string; message_id: string } }>> {
  const { id, messageId, action, params } = command.snapshot.context.fixed;
  const release = await findRequestedRelease(services, caller, { action, params });
  // Read last, so that a policy changed during the lookups above applies.
  const current = services.actors.peek<TenantContext>(tenant.ref) ?? tenant;
  const event: CommandEvent = {
    type: 'confirm',
    at: services.clock.now(),
    by: caller.principal,
    tokenHash,
    policy: current.snapshot.context.fixed.policy,
    facts: gatewayFacts(services, current, target, { action, params, dryRun: false, confirmed: true, release }),
    session: target.session,
  };
  const answer = { body: { success: true as const, command_id: id, message_id: messageId } };
  const reply = await sendToActor(services, command.ref, event, () => idempotent?.toRow(answer));
  return reply.ok ? done(answer) : reply;
}

/**
 * Checks the policy for this confirmer and a command requested by `requester`; without `requester`, checks only what
 * applies to every command.
 */
export function checkConfirmPolicy(
  { snapshot }: CommittedTenant,
  { principal }: Caller,
  requester = SYSTEM,
): Outcome<null> {
  const allowed = mayConfirm(snapshot.context.fixed.policy, requester, principal, { inbox: true });
  return allowed.ok ? done(null) : allowed;
}

/** Whether the requester of a command may also confirm it, by the current policy. */
export const mayConfirmOwn = async (services: Pick<Services, 'actors'>, caller: Caller): Promise<boolean> =>
  checkConfirmPolicy(await readTenant(services, caller), caller, caller.principal).ok;
