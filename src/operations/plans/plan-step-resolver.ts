import { type OutputResolver, Quarantined, type SyncOutputResolver } from '../../actors/contract.ts';
import type { Outcome } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import type { CommandContext } from '../../machines/command-types.ts';
import type { PlanContext } from '../../machines/plan-types.ts';
import type { TenantContext } from '../../machines/tenant-types.ts';
import { loadTarget, readTenant, targetFromMemory } from '../commands/gateway-facts.ts';
import { findRequestedRelease, UPDATE_FIRMWARE } from '../firmware/firmware-facts.ts';
import type { Caller, Services } from '../operation.ts';
import {
  authorizeCreator,
  commandFor,
  effectiveAction,
  findRequestedStep,
  planEndedRefusal,
  stepRefusal,
} from './plan-step-command.ts';

// What a plan asks for, done as its creator: every step passes the gateway like any command, with the role and the scopes that
// the creator has at that moment.

/** What the output `plan.ask` comes to: the command of a step, or a word to the plan why there is none. */
export const planStepResolver =
  (services: Services): OutputResolver<'plan.ask'> =>
  async (output) => {
    const ref = { kind: 'plan', id: output.planId } as const;
    const plan = await services.actors.read<PlanContext>(ref);
    // It waits: what such a plan seems to say counts only when somebody has let it go on.
    const { quarantine } = services.actors.inspect(ref);
    if (quarantine !== null) throw new Quarantined(quarantine);
    const asked = findRequestedStep(plan?.snapshot.context, output);
    if (asked === null) return null;
    const late = planEndedRefusal(asked);
    if (late !== null) return stepRefusal(services, asked, late);
    const found = await loadCreator(services, asked.context);
    if (!found.ok) return stepRefusal(services, asked, found.refusal);
    const creator = found.value;
    const { step } = asked;
    const approval = step.undo === null ? null : await loadApproval(services, step.commandId as Uuid);
    const release = await findRequestedRelease(services, creator, effectiveAction(asked));
    const target = await loadTarget(services, creator, step.deviceId);
    const tenant = await readTenant(services, creator);
    return commandFor(services, creator, asked, { tenant, target, release, approval });
  };

/**
 * The same where memory tells all of it, as it does for what is asked on live devices: the commands are then kept together
 * with the plan that asks for them.
 */
export const planStepSyncResolver =
  (services: Services): SyncOutputResolver<'plan.ask'> =>
  (output, turn) => {
    const plan = turn.peek<PlanContext>({ kind: 'plan', id: output.planId });
    const asked = findRequestedStep(plan?.snapshot.context, output);
    if (asked === null) return null;
    const late = planEndedRefusal(asked);
    if (late !== null) return stepRefusal(services, asked, late);
    const { createdBy, tenantId } = asked.context;
    const user = services.users.cached(createdBy.id);
    const key = createdBy.key === undefined ? null : services.apiKeys.cached(createdBy.key);
    const tenant = turn.peek<TenantContext>({ kind: 'tenant', id: tenantId });
    if (user === undefined || key === undefined || tenant === undefined) return null;
    const creator = authorizeCreator(asked.context, user, key);
    if (!creator.ok) return stepRefusal(services, asked, creator.refusal);
    // What undoes a step is shown how that was confirmed, and an update its release: the store knows.
    if (asked.step.undo !== null || asked.step.action === UPDATE_FIRMWARE) return null;
    const target = targetFromMemory(services, turn, creator.value, asked.step.deviceId);
    if (target === undefined) return null;
    const judging = { ...services, actors: turn };
    return commandFor(judging, creator.value, asked, { tenant, target, release: null, approval: null });
  };

/** The command of the step that is to be undone, as committed. */
async function loadApproval({ actors }: Pick<Services, 'actors'>, id: Uuid): Promise<CommandContext | null> {
  const command = await actors.read<CommandContext>({ kind: 'command', id });
  return command?.snapshot.context ?? null;
}

/** The creator with what they may now; refused as if they asked for the command at this moment. */
export async function loadCreator(
  services: Pick<Services, 'users' | 'apiKeys'>,
  plan: Pick<PlanContext, 'createdBy' | 'scopes' | 'requestId' | 'tenantId'>,
): Promise<Outcome<Caller>> {
  const { id, key } = plan.createdBy;
  const user = await services.users.get(id);
  return authorizeCreator(plan, user, key === undefined ? null : await services.apiKeys.findLive(key));
}
