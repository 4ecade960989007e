import { type OutputResolver, Quarantined, type SyncOutputResolver } from '../actors/contract.ts';
import type { Outcome } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';
import type { CommandContext } from '../machines/command-types.ts';
import type { PlanContext } from '../machines/plan-types.ts';
import type { TenantContext } from '../machines/tenant-types.ts';
import { targetAtHand, targetOf, tenantFacts } from './facts.ts';
import { releaseNamed, UPDATE } from './firmware-facts.ts';
import type { Caller, Services } from './operation.ts';
import { askedStep, cameTooLate, commandFor, creatorOf, deedOf, refusedStep } from './plan-step.ts';

// What a plan asks for, done as its creator: every step passes the gateway like any command, with the role and the scopes that
// the creator has at that moment.

/** What the output `plan.ask` comes to: the command of a step, or a word to the plan why there is none. */
export const planResolver =
  (services: Services): OutputResolver<'plan.ask'> =>
  async (output) => {
    const ref = { kind: 'plan', id: output.planId } as const;
    const plan = await services.actors.read<PlanContext>(ref);
    // It waits: what such a plan seems to say counts only when somebody has let it go on.
    const { quarantine } = services.actors.inspect(ref);
    if (quarantine !== null) throw new Quarantined(quarantine);
    const asked = askedStep(plan?.snapshot.context, output);
    if (asked === null) return null;
    const late = cameTooLate(asked);
    if (late !== null) return refusedStep(services, asked, late);
    const found = await callerOf(services, asked.context);
    if (!found.ok) return refusedStep(services, asked, found.refusal);
    const creator = found.value;
    const { step } = asked;
    const approval = step.undo === null ? null : await approvalOf(services, step.commandId as Uuid);
    const release = await releaseNamed(services, creator, deedOf(asked));
    const target = await targetOf(services, creator, step.deviceId);
    const tenant = await tenantFacts(services, creator);
    return commandFor(services, creator, asked, { tenant, target, release, approval });
  };

/**
 * The same where memory tells all of it, as it does for what is asked on live devices: the commands are then kept together
 * with the plan that asks for them.
 */
export const planAtHand =
  (services: Services): SyncOutputResolver<'plan.ask'> =>
  (output, turn) => {
    const plan = turn.peek<PlanContext>({ kind: 'plan', id: output.planId });
    const asked = askedStep(plan?.snapshot.context, output);
    if (asked === null) return null;
    const late = cameTooLate(asked);
    if (late !== null) return refusedStep(services, asked, late);
    const { createdBy, tenantId } = asked.context;
    const user = services.users.cached(createdBy.id);
    const key = createdBy.key === undefined ? null : services.keys.cached(createdBy.key);
    const tenant = turn.peek<TenantContext>({ kind: 'tenant', id: tenantId });
    if (user === undefined || key === undefined || tenant === undefined) return null;
    const creator = creatorOf(asked.context, user, key);
    if (!creator.ok) return refusedStep(services, asked, creator.refusal);
    // What undoes a step is shown how that was confirmed, and an update its release: the store knows.
    if (asked.step.undo !== null || asked.step.action === UPDATE) return null;
    const target = targetAtHand(services, turn, creator.value, asked.step.deviceId);
    if (target === undefined) return null;
    const judging = { ...services, actors: turn };
    return commandFor(judging, creator.value, asked, { tenant, target, release: null, approval: null });
  };

/** The command of the step that is to be undone, as committed. */
async function approvalOf({ actors }: Pick<Services, 'actors'>, id: Uuid): Promise<CommandContext | null> {
  const command = await actors.read<CommandContext>({ kind: 'command', id });
  return command?.snapshot.context ?? null;
}

/** The creator with what they may now; refused as if they asked for the command at this moment. */
export async function callerOf(
  services: Pick<Services, 'users' | 'keys'>,
  plan: Pick<PlanContext, 'createdBy' | 'scopes' | 'requestId' | 'tenantId'>,
): Promise<Outcome<Caller>> {
  const { id, key } = plan.createdBy;
  const user = await services.users.get(id);
  return creatorOf(plan, user, key === undefined ? null : await services.keys.live(key));
}
