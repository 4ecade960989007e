import { z } from 'zod';
import type { ContextInput } from '../domain/cognition.ts';
import { judge } from '../domain/gateway.ts';
import { done, type Outcome, type RefusalCode, refusals } from '../domain/refusals.ts';
import { reason } from '../domain/request-fields.ts';
import { allowsScope } from '../domain/scopes.ts';
import type { Uuid } from '../domain/values.ts';
import type { Snapshot } from '../machines/definition.ts';
import type { PlanContext, PlanEvent, StepInput } from '../machines/plan-types.ts';
import type { IdempotencyRow } from '../store/contract.ts';
import { ask } from './ask.ts';
import { previewShape } from './command-view.ts';
import { previewOf, withoutRequest } from './dispatch.ts';
import { barredBefore, type CommittedTenant, gatewayFacts, type Target, targetsOf, tenantFacts } from './facts.ts';
import { releaseNamed } from './firmware-facts.ts';
import { idOf, notFound } from './inputs.ts';
import { type Caller, operation, type Services, tenantOf } from './operation.ts';
import { type PlanWish, planFields, stepWishes } from './plan-input.ts';
import { findPlan, planAnswer, planOf } from './plan-view.ts';

// Plans: asked for, tried out, cancelled.

const verdict = z
  .object({
    id: z.string(),
    verdict: z.enum(['allowed', 'dry_run_required', ...(Object.keys(refusals) as RefusalCode[])]).meta({
      description: '`allowed`, `dry_run_required` where somebody has to confirm it, or the code of the refusal',
    }),
    preview: previewShape,
  })
  .meta({ id: 'PlanStepVerdict' });
const dryRun = z.object({ steps: z.array(verdict) }).meta({ id: 'PlanDryRun' });

export const createPlan = operation({
  name: 'createPlan',
  summary: 'Run steps on devices, each as soon as those it depends on have succeeded',
  input: z.strictObject({
    ...planFields,
    dry_run: z.boolean().optional().meta({ description: 'Say what each step would come to, and do nothing' }),
  }),
  output: z.union([planAnswer, dryRun]),
  answers: {
    202: { when: 'The plan is on its way', body: planAnswer },
    200: { when: 'The dry run that was asked for', body: dryRun },
  },
  role: 'user',
  scope: 'execute:plans',
  changes: true,
  audit: 'journal',
  refuses: ['NOT_FOUND'],
  example: {
    input: {
      name: 'Good night',
      steps: [
        { id: 'lock', device_id: '0195d9a2-7f00-7000-8000-000000000001', action: 'lock' },
        {
          id: 'dim',
          device_id: '0195d9a2-7f00-7000-8000-000000000002',
          action: 'set_brightness',
          params: { level: 10 },
          depends_on: ['lock'],
          compensation: { action: 'set_brightness', params: { level: 100 } },
        },
      ],
    },
  },
  async run(services, { input, caller, idempotent }) {
    const { dry_run, ...wish } = input;
    const steps = stepWishes(wish);
    const targets = await targetsOfAll(services, caller, steps);
    if (!targets.ok) return targets;
    if (dry_run) return done({ status: 200, body: await tried(services, caller, steps, targets.value) });
    const plan = await makePlan(services, caller, wish, (context) =>
      idempotent === null ? null : idempotent.row({ body: { plan: planOf(context) } }),
    );
    return done({ body: { plan: planOf(plan) } });
  },
});

/** A plan to be made in the caller's name. */
export type PlanMade = Pick<PlanContext, 'name' | 'onFailure'> & {
  steps: readonly StepInput[];
  cognition?: ContextInput & { proposalId: Uuid | null };
};

export const makePlan = (
  services: Services,
  caller: Caller,
  wish: PlanWish,
  row?: (plan: PlanContext) => IdempotencyRow | null,
): Promise<PlanContext> => {
  const { name = null, on_failure: onFailure = 'rollback' } = wish;
  return startPlan(services, caller, { name, onFailure, steps: stepWishes(wish) }, row);
};

/** Makes the plan; resolves when that is durable, and its first steps are asked for by then. */
export async function startPlan(
  services: Services,
  caller: Caller,
  made: PlanMade,
  row: (plan: PlanContext) => IdempotencyRow | null = () => null,
): Promise<PlanContext> {
  const id = services.newId();
  const event: PlanEvent = {
    type: 'create',
    at: services.clock.now(),
    by: caller.principal,
    plan: {
      id,
      tenantId: tenantOf(caller),
      ...made,
      createdBy: withoutRequest(caller.principal),
      scopes: caller.scopes,
      requestId: caller.requestId,
    },
  };
  const reply = await services.actors.create({ kind: 'plan', id }, event, {
    idempotency: ({ snapshot }) => row(snapshot.context as PlanContext),
  });
  return reply.snapshot.context as PlanContext;
}

/** All of the steps' devices; one that is not the caller's refuses the plan. */
export async function targetsOfAll(
  services: Services,
  caller: Caller,
  steps: readonly StepInput[],
): Promise<Outcome<ReadonlyMap<string, Target>>> {
  const ids = [...new Set(steps.map(({ deviceId }) => deviceId))];
  const targets = await targetsOf(services, caller, ids);
  return ids.every((id) => targets.has(id)) ? done(targets) : notFound('device');
}

async function tried(
  services: Services,
  caller: Caller,
  steps: readonly StepInput[],
  targets: ReadonlyMap<string, Target>,
): Promise<z.infer<typeof dryRun>> {
  const tenant = await tenantFacts(services, caller);
  const verdicts = steps.map(async (step) => {
    const target = targets.get(step.deviceId) as Target;
    return {
      id: step.id,
      verdict: await verdictOn(services, caller, { tenant, target, step }),
      preview: previewOf(target, step.action, step.params) as z.infer<typeof previewShape>,
    };
  });
  return { steps: await Promise.all(verdicts) };
}

interface Tried {
  tenant: CommittedTenant;
  target: Target;
  step: StepInput;
}

async function verdictOn(
  services: Services,
  caller: Caller,
  { tenant, target, step }: Tried,
): Promise<z.infer<typeof verdict>['verdict']> {
  const { action, params, compensation } = step;
  const barred = barredBefore(services, tenant, target.device);
  if (barred !== null) return barred.code;
  if (!allowsScope(caller.scopes, 'execute:commands')) return 'INSUFFICIENT_SCOPE';
  const release = await releaseNamed(services, caller, { action, params });
  const asked = { action, params, dryRun: false, confirmed: false, release };
  const judged = judge(gatewayFacts(services, tenant, target, asked));
  if (judged.kind === 'refused') return judged.refusal.code;
  const undo = target.manifest?.capabilities.find((one) => one.action === compensation?.action);
  const waits = judged.kind === 'confirmation' || undo?.safetyClass === 'CRITICAL';
  return waits ? 'dry_run_required' : 'allowed';
}

export const cancelPlan = operation({
  name: 'cancelPlan',
  summary: 'Start nothing more of a plan, and undo what was done where its steps say how',
  input: z.strictObject({ id: idOf('plan'), reason: reason.optional() }),
  output: planAnswer,
  role: 'user',
  scope: 'execute:plans',
  changes: true,
  audit: 'journal',
  inMaintenance: true,
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION'],
  example: { input: { reason: 'The guests have left.' } },
  async run(services, { input, caller, idempotent }) {
    const found = await findPlan(services, caller, input.id);
    if (!found.ok) return found;
    const event: PlanEvent = {
      type: 'cancel',
      at: services.clock.now(),
      by: caller.principal,
      ...(input.reason !== undefined && { reason: input.reason }),
    };
    const answer = ({ context }: Pick<Snapshot, 'context'>) => ({ body: { plan: planOf(context as PlanContext) } });
    const asked = await ask(services, found.value.ref, event, (_, after) => idempotent?.row(answer(after)), {
      again: true,
    });
    return asked.ok ? done(answer(asked.value.snapshot)) : asked;
  },
});
