import { type OutputResolver, Quarantined, type SyncOutputResolver } from '../../actors/contract.ts';
import { UPDATE_FIRMWARE } from '../../domain/firmware-verification.ts';
import type { Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { CommandContext, CommandFixed } from '../../machines/command-types.ts';
import type { PlanContext, PlanFixed } from '../../machines/plan-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import type { CommandServices } from '../commands/command-request.ts';
import { loadTarget, readTenant, type TargetServices, targetFromMemory } from '../commands/gateway-facts.ts';
import { findRequestedRelease } from '../firmware/firmware-facts.ts';
import type { Caller, Services } from '../operation.ts';
import {
  authorizeCreator,
  commandFor,
  effectiveAction,
  findRequestedStep,
  planEndedRefusal,
  stepRefusal,
} from './plan-step-command.ts';

// Resolves the steps that plans request: every step passes the gateway like any command, with the current role and
// scopes of the plan's creator.

/** Services that load the creator of a plan. */
export type CreatorServices = Pick<Services, 'apiKeys' | 'users'>;

type StepServices = CommandServices & TargetServices & CreatorServices & Pick<Services, 'newId' | 'open' | 'store'>;

/**
 * Resolves the output `plan.ask` to the command of a step, or to an event for the plan that explains why there is none.
 */
export const planStepResolver =
  (services: StepServices): OutputResolver<'plan.ask'> =>
  async (output) => {
    const ref = { kind: 'plan', id: output.planId } as const;
    const plan = await services.actors.read<PlanContext>(ref);
    // The outputs of a quarantined plan are not acted on until it is released.
    const { quarantine } = services.actors.inspect(ref);
    if (quarantine !== null) throw new Quarantined(quarantine);
    const requested = findRequestedStep(plan?.snapshot.context, output);
    if (requested === null) return null;
    const ended = planEndedRefusal(requested);
    if (ended !== null) return stepRefusal(services, requested, ended);
    const authorized = await loadCreator(services, requested.context.fixed);
    if (!authorized.ok) return stepRefusal(services, requested, authorized.refusal);
    const creator = authorized.value;
    const { step } = requested;
    const approval = step.undo === null ? null : await loadApproval(services, step.commandId as Uuid);
    const release = await findRequestedRelease(services, creator, effectiveAction(requested));
    const target = await loadTarget(services, creator, step.deviceId);
    const tenant = await readTenant(services, creator);
    return commandFor(services, creator, requested, { tenant, target, release, approval });
  };

/**
 * Synchronous variant, used if everything is in memory, as for live devices: the commands are then committed in the
 * same batch as the plan. Null on a miss.
 */
export const planStepSyncResolver =
  (services: Omit<StepServices, 'actors' | 'store'>): SyncOutputResolver<'plan.ask'> =>
  (output, batch) => {
    const plan = batch.peek<PlanContext>({ kind: 'plan', id: output.planId });
    const requested = findRequestedStep(plan?.snapshot.context, output);
    if (requested === null) return null;
    const ended = planEndedRefusal(requested);
    if (ended !== null) return stepRefusal(services, requested, ended);
    const { createdBy, tenantId } = requested.context.fixed;
    const user = services.users.cached(createdBy.id);
    const key = createdBy.key === undefined ? null : services.apiKeys.cached(createdBy.key);
    const tenant = batch.peek<TenantContext>({ kind: 'tenant', id: tenantId });
    if (user === undefined || key === undefined || tenant === undefined) return null;
    const creator = authorizeCreator(requested.context.fixed, user, key);
    if (!creator.ok) return stepRefusal(services, requested, creator.refusal);
    // A compensation needs the approval of its step, and an update its release: both are read from the store.
    if (requested.step.undo !== null || requested.step.action === UPDATE_FIRMWARE) return null;
    const target = targetFromMemory(services, batch, creator.value, requested.step.deviceId);
    if (target === undefined) return null;
    const batchServices = { ...services, actors: batch };
    return commandFor(batchServices, creator.value, requested, { tenant, target, release: null, approval: null });
  };

/** The committed command of the step to be undone. */
async function loadApproval({ actors }: Pick<Services, 'actors'>, id: Uuid): Promise<CommandFixed | null> {
  const command = await actors.read<CommandContext>({ kind: 'command', id });
  return command?.snapshot.context.fixed ?? null;
}

/** The creator with their current permissions, checked as if they requested the command now. */
export async function loadCreator(
  services: CreatorServices,
  plan: Pick<PlanFixed, 'createdBy' | 'scopes' | 'requestId' | 'tenantId'>,
): Promise<Outcome<Caller>> {
  const { id, key } = plan.createdBy;
  const user = await services.users.get(id);
  return authorizeCreator(plan, user, key === undefined ? null : await services.apiKeys.findValid(key));
}
