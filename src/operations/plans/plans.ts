import { z } from 'zod';
import type { ContextInput } from '../../domain/cognition.ts';
import { judge } from '../../domain/gateway.ts';
import { done, type Outcome, type RefusalCode, refusals } from '../../domain/refusals.ts';
import { reason } from '../../domain/request-fields.ts';
import { allowsScope } from '../../domain/scopes.ts';
import type { Uuid } from '../../domain/values.ts';
import type { Snapshot } from '../../machines/definition.ts';
import type { PlanContext, PlanEvent, StepInput } from '../../machines/plan-types.ts';
import type { IdempotencyRow } from '../../store/contract.ts';
import { previewOf, stripRequest } from '../commands/command-request.ts';
import { previewBody } from '../commands/command-view.ts';
import {
  type CommittedTenant,
  earlyRefusal,
  gatewayFacts,
  loadTargets,
  readTenant,
  type Target,
} from '../commands/gateway-facts.ts';
import { findRequestedRelease } from '../firmware/firmware-facts.ts';
import { idOf, notFound } from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { type PlanInput, planFields, toStepInputs } from './plan-input.ts';
import { findPlan, planAnswer, planRecordOf } from './plan-view.ts';

// Plans: asked for, tried out, cancelled.

const verdict = z
  .object({
    id: z.string(),
    verdict: z.enum(['allowed', 'dry_run_required', ...(Object.keys(refusals) as RefusalCode[])]).meta({
      description: '`allowed`, `dry_run_required` where somebody has to confirm it, or the code of the refusal',
    }),
    preview: previewBody,
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
  responses: {
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
    const steps = toStepInputs(wish);
    const targets = await loadStepTargets(services, caller, steps);
    if (!targets.ok) return targets;
    if (dry_run) return done({ status: 200, body: await dryRunSteps(services, caller, steps, targets.value) });
    const plan = await startPlanFromInput(services, caller, wish, (context) =>
      idempotent === null ? null : idempotent.toRow({ body: { plan: planRecordOf(context) } }),
    );
    return done({ body: { plan: planRecordOf(plan) } });
  },
});

/** A plan to be made in the caller's name. */
export type NewPlan = Pick<PlanContext, 'name' | 'onFailure'> & {
  steps: readonly StepInput[];
  cognition?: ContextInput & { proposalId: Uuid | null };
};

export const startPlanFromInput = (
  services: Services,
  caller: Caller,
  wish: PlanInput,
  row?: (plan: PlanContext) => IdempotencyRow | null,
): Promise<PlanContext> => {
  const { name = null, on_failure: onFailure = 'rollback' } = wish;
  return startPlan(services, caller, { name, onFailure, steps: toStepInputs(wish) }, row);
};

/** Makes the plan; resolves when that is durable, and its first steps are asked for by then. */
export async function startPlan(
  services: Services,
  caller: Caller,
  made: NewPlan,
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
      createdBy: stripRequest(caller.principal),
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
export async function loadStepTargets(
  services: Services,
  caller: Caller,
  steps: readonly StepInput[],
): Promise<Outcome<ReadonlyMap<string, Target>>> {
  const ids = [...new Set(steps.map(({ deviceId }) => deviceId))];
  const targets = await loadTargets(services, caller, ids);
  return ids.every((id) => targets.has(id)) ? done(targets) : notFound('device');
}

async function dryRunSteps(
  services: Services,
  caller: Caller,
  steps: readonly StepInput[],
  targets: ReadonlyMap<string, Target>,
): Promise<z.infer<typeof dryRun>> {
  const tenant = await readTenant(services, caller);
  const verdicts = steps.map(async (step) => {
    const target = targets.get(step.deviceId) as Target;
    return {
      id: step.id,
      verdict: await verdictFor(services, caller, { tenant, target, step }),
      preview: previewOf(target, step.action, step.params) as z.infer<typeof previewBody>,
    };
  });
  return { steps: await Promise.all(verdicts) };
}

interface StepToJudge {
  tenant: CommittedTenant;
  target: Target;
  step: StepInput;
}

async function verdictFor(
  services: Services,
  caller: Caller,
  { tenant, target, step }: StepToJudge,
): Promise<z.infer<typeof verdict>['verdict']> {
  const { action, params, compensation } = step;
  const barred = earlyRefusal(services, tenant, target.device);
  if (barred !== null) return barred.code;
  if (!allowsScope(caller.scopes, 'execute:commands')) return 'INSUFFICIENT_SCOPE';
  const release = await findRequestedRelease(services, caller, { action, params });
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
    const answer = ({ context }: Pick<Snapshot, 'context'>) => ({
      body: { plan: planRecordOf(context as PlanContext) },
    });
    const asked = await sendToActor(services, found.value.ref, event, (_, after) => idempotent?.toRow(answer(after)), {
      again: true,
    });
    return asked.ok ? done(answer(asked.value.snapshot)) : asked;
  },
});
