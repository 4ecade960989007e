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

// How a waiting command is confirmed, whether with its token or from the inbox. That it may be is decided in the command's
// machine, by the policy as it is now; what stands here beside that keeps stored answers from whom the policy refuses.

export interface ConfirmationRequest {
  tenant: CommittedTenant;
  target: Target;
  command: CommittedCommand;
  /** Null from the inbox, where identity and policy decide. */
  tokenHash: string | null;
}

/** The tenant and the device of a command to be confirmed; those of a revoked device were cancelled, which is said. */
export async function loadConfirmationTarget(
  services: Services,
  caller: Caller,
  deviceId: Uuid,
): Promise<Outcome<Pick<ConfirmationRequest, 'tenant' | 'target'>>> {
  const tenant = await readTenant(services, caller);
  const target = await loadTarget(services, caller, deviceId);
  const barred = earlyRefusal(services, tenant, target.ok ? target.value.device : null);
  if (barred !== null) return { ok: false, refusal: barred };
  return target.ok ? done({ tenant, target: target.value }) : target;
}

export async function sendConfirmation(
  services: Services,
  { caller, idempotent }: Pick<Call<unknown>, 'caller' | 'idempotent'>,
  { tenant, target, command, tokenHash }: ConfirmationRequest,
): Promise<Outcome<{ body: { success: true; command_id: string; message_id: string } }>> {
  const { id, messageId, action, params } = command.snapshot.context;
  const release = await findRequestedRelease(services, caller, { action, params });
  // Looked at last: a policy that was changed while the command was looked up counts already.
  const newest = services.actors.peek<TenantContext>(tenant.ref) ?? tenant;
  const event: CommandEvent = {
    type: 'confirm',
    at: services.clock.now(),
    by: caller.principal,
    tokenHash,
    policy: newest.snapshot.context.policy,
    facts: gatewayFacts(services, newest, target, { action, params, dryRun: false, confirmed: true, release }),
    session: target.session,
  };
  const answer = { body: { success: true as const, command_id: id, message_id: messageId } };
  const asked = await sendToActor(services, command.ref, event, () => idempotent?.toRow(answer));
  return asked.ok ? done(answer) : asked;
}

/**
 * What the policy says of the confirmer, for a command that `asker` asked for; without one what it says of them whatever the
 * command is.
 */
export function checkConfirmPolicy(
  { snapshot }: CommittedTenant,
  { principal }: Caller,
  asker = SYSTEM,
): Outcome<null> {
  const allowed = mayConfirm(snapshot.context.policy, asker, principal, { inbox: true });
  return allowed.ok ? done(null) : allowed;
}

/** Whether who asked for a command may confirm it too, as the policy is now. */
export const mayConfirmOwn = async (services: Pick<Services, 'actors'>, caller: Caller): Promise<boolean> =>
  checkConfirmPolicy(await readTenant(services, caller), caller, caller.principal).ok;
