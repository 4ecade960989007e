import { randomUUID } from 'node:crypto';
import { type Posted, Quarantined, type Resolver } from '../actors/contract.ts';
import { done, type Outcome, type Refusal, refuse } from '../domain/refusals.ts';
import { atMost } from '../domain/roles.ts';
import type { Milliseconds, Principal, Uuid } from '../domain/values.ts';
import type { CommandContext } from '../machines/command-types.ts';
import type { PlanContext, PlanEvent, PlanStep } from '../machines/plan-types.ts';
import { commandDevice } from './commands.ts';
import { requestOf } from './dispatch.ts';
import { targetOf, tenantFacts } from './facts.ts';
import { releaseNamed } from './firmware-facts.ts';
import type { Caller, Services } from './operation.ts';
import { mayCall } from './perform.ts';

// What a plan asks for, done as its creator: every step passes the gateway like any command, with the role and the scopes that
// the creator has at that moment.

/** How soon a step that a flag holds back is asked for again. */
const FLAG_MS: Milliseconds = 5_000;
/** Of a suspended tenant's plan; it is woken by the tenant's return, and this is for when it was not told. */
const SUSPENSION_MS: Milliseconds = 60_000;

/** What the output `plan.ask` comes to: the command of a step, or a word to the plan why there is none. */
export const planResolver =
  (services: Services): Resolver<'plan.ask'> =>
  async ({ planId, stepId, commandId }) => {
    const ref = { kind: 'plan', id: planId } as const;
    const plan = await services.actors.read<PlanContext>(ref);
    // It waits: what such a plan seems to say counts only when somebody has let it go on.
    const { quarantine } = services.actors.inspect(ref);
    if (quarantine !== null) throw new Quarantined(quarantine);
    const context = plan?.snapshot.context;
    const step = context?.steps.find(({ id }) => id === stepId);
    if (!context || step?.ask !== 'asked' || (step.undo ?? step).commandId !== commandId) return null;
    const tell = (event: WithoutAt): Posted => ({
      to: ref,
      event: { ...event, at: services.clock.now() },
    });
    const no = ({ code, detail }: Refusal): Posted =>
      tell({ type: 'step.refused', stepId, commandId, error: { code, detail } });

    if (step.undo === null && context.ending !== null) {
      return no({ code: 'CONFLICT', detail: 'The plan had ended before the step began.' });
    }
    const creator = await callerOf(services, context);
    if (!creator.ok) return no(creator.refusal);
    const made = await commandFor(services, creator.value, { context, step, commandId });
    if ('heldMs' in made) return tell({ type: 'step.held', stepId, commandId, forMs: made.heldMs });
    if ('refusal' in made) return no(made.refusal);
    const failed = { code: 'GATEWAY_ERROR', detail: 'The safety gateway failed; nothing was sent.' } as const;
    return { to: { kind: 'command', id: commandId }, event: made.event, create: true, otherwise: no(failed) };
  };

type Tell = Extract<PlanEvent, { type: 'step.refused' | 'step.held' }>;
type WithoutAt = Tell extends infer One ? (One extends Tell ? Omit<One, 'at'> : never) : never;

interface Asked {
  context: PlanContext;
  step: PlanStep;
  commandId: Uuid;
}
type Made = { event: ReturnType<typeof requestOf> } | { heldMs: Milliseconds } | { refusal: Refusal };

async function commandFor(services: Services, caller: Caller, { context, step, commandId }: Asked): Promise<Made> {
  const { action, params } = step.undo === null ? step : (step.compensation ?? step);
  const approval = step.undo === null ? null : await approvalOf(services, step);
  const release = await releaseNamed(services, caller, { action, params });
  const target = await targetOf(services, caller, step.deviceId);
  const tenant = await tenantFacts(services, caller);
  // From here on nothing is waited for: what holds it back is looked at with the facts that the gateway judges by.
  const heldMs = held(services, tenant.snapshot.value === 'suspended');
  if (heldMs !== null) return { heldMs };
  if (!target.ok) return target;
  const planned = {
    device_id: step.deviceId,
    command_id: commandId,
    message_id: services.newId(),
    // Nobody gets it: a plan's commands are confirmed from the inbox.
    dry_run_token: randomUUID(),
  };
  const compensation = step.undo === null ? step.compensation : null;
  const wish = { action, params, ...(step.timeoutS !== null && { timeout_s: step.timeoutS }) };
  const plan = { id: context.id, stepId: step.id, compensation };
  const asked = { tenant, target: target.value, wish, planned, release, plan, ...(approval && { approval }) };
  return { event: requestOf(services, caller, asked) };
}

function held({ flags }: Pick<Services, 'flags'>, suspended: boolean): Milliseconds | null {
  if (suspended) return SUSPENSION_MS;
  const { maintenance_mode, commands_disabled } = flags();
  return maintenance_mode || commands_disabled ? FLAG_MS : null;
}

/** The command of the step as committed: whether somebody confirmed it, and what that covered, is for the machine to see. */
async function approvalOf(
  { actors }: Pick<Services, 'actors'>,
  { commandId }: PlanStep,
): Promise<CommandContext | null> {
  const command = await actors.read<CommandContext>({ kind: 'command', id: commandId as Uuid });
  return command?.snapshot.context ?? null;
}

/** The creator with what they may now; refused as if they asked for the command at this moment. */
export async function callerOf(
  services: Pick<Services, 'users' | 'keys'>,
  { createdBy, scopes, requestId, tenantId }: Pick<PlanContext, 'createdBy' | 'scopes' | 'requestId' | 'tenantId'>,
): Promise<Outcome<Caller>> {
  const user = await services.users.get(createdBy.id);
  const key = createdBy.key === undefined ? null : await services.keys.live(createdBy.key);
  if (user === null || (createdBy.key !== undefined && key?.tenantId !== tenantId)) {
    return refuse('UNAUTHENTICATED', "The credential of the plan's creator is not valid any more.");
  }
  if (user.tenantId !== tenantId) return refuse('FORBIDDEN_ROLE', "The plan's creator has left the tenant.");
  const principal: Principal = { ...createdBy, requestId, operation: 'createPlan' };
  const caller: Caller = {
    ...{ user, principal, tenantId, requestId, platformAdmin: false, token: null, endsAt: null },
    role: key === null ? user.role : atMost(user.role, key.roleCap),
    scopes: key === null ? scopes : key.scopes,
  };
  return mayCall(commandDevice, caller) ?? done(caller);
}
