import { z } from 'zod';
import type { ContextInput } from '../../domain/cognition.ts';
import { judge } from '../../domain/gateway.ts';
import { isObject } from '../../domain/json/value.ts';
import { done, type Outcome, type RefusalCode, refusals } from '../../domain/refusals.ts';
import { reason } from '../../domain/request-fields.ts';
import type { Json, JsonObject } from '../../domain/values.ts';
import type { Snapshot } from '../../machines/definition.ts';
import type { PlanCognition, PlanContext, PlanEvent, PlanFixed, StepInput } from '../../machines/plan-types.ts';
import type { IdempotencyRow } from '../../store/contract.ts';
import { effectOf, stripRequest } from '../commands/command-request.ts';
import { previewBody } from '../commands/command-view.ts';
import {
  type CommittedTenant,
  earlyRefusal,
  type GatewayServices,
  gatewayFacts,
  loadTargets,
  readTenant,
  type Target,
  type TargetServices,
} from '../commands/gateway-facts.ts';
import { findRequestedRelease, type RequestedRelease } from '../firmware/firmware-facts.ts';
import { idOf, notFound } from '../inputs.ts';
import { type Caller, operation, type Services, tenantOf } from '../operation.ts';
import { sendToActor } from '../send-to-actor.ts';
import { type PlanInput, planFields, toStepInputs } from './plan-input.ts';
import { findPlan, planAnswer, planRecordOf } from './plan-view.ts';
import { sealStep } from './sealed-steps.ts';

// Operations on plans: create, dry run, cancel.

const verdictCode = z
  .enum(['allowed', 'dry_run_required', ...(Object.keys(refusals) as RefusalCode[])])
  .meta({ id: 'PlanStepVerdictCode' });
const verdict = z
  .object({
    id: z.string(),
    verdict: verdictCode.meta({
      description: '`allowed`, `dry_run_required` if the step must be confirmed, or the code of the refusal',
    }),
    preview: previewBody,
  })
  .meta({ id: 'PlanStepVerdict' });
const dryRun = z.object({ steps: z.array(verdict) }).meta({ id: 'PlanDryRun' });

export const createPlan = operation({
  name: 'createPlan',
  summary: 'Run a plan: each step starts as soon as the steps it depends on have succeeded',
  input: z.strictObject({
    ...planFields,
    dry_run: z.boolean().optional().meta({ description: 'Only check each step; nothing is run' }),
  }),
  output: z.union([planAnswer, dryRun]),
  responses: {
    202: { when: 'The plan was started', body: planAnswer },
    200: { when: 'The requested dry run', body: dryRun },
  },
  role: 'user',
  scope: 'execute:plans',
  alsoScope: 'execute:commands',
  changes: true,
  changesNothing: (given) => isObject(given as Json) && (given as JsonObject).dry_run === true,
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
  needs: ['actors', 'artifacts', 'clock', 'flags', 'manifests', 'newId', 'seal', 'sessions', 'store'],
  async run(services, { input, caller, idempotent }) {
    const { dry_run, ...fields } = input;
    const steps = toStepInputs(fields);
    const targets = await loadStepTargets(services, caller, steps);
    if (!targets.ok) return targets;
    if (dry_run) return done({ status: 200, body: await dryRunSteps(services, caller, steps, targets.value) });
    const plan = await startPlanFromInput(services, caller, { input: fields, targets: targets.value }, (context) =>
      idempotent === null ? null : idempotent.toRow({ body: { plan: planRecordOf(context) } }),
    );
    return done({ body: { plan: planRecordOf(plan) } });
  },
});

/** A plan to be created on behalf of the caller. */
export type NewPlan = Pick<PlanFixed, 'name' | 'onFailure'> & {
  steps: readonly StepInput[];
  /** The devices of the steps. */
  targets?: ReadonlyMap<string, Target>;
  cognition?: ContextInput & Pick<PlanCognition, 'proposalId' | 'memories'>;
};

export const startPlanFromInput = (
  services: Pick<Services, 'actors' | 'clock' | 'newId' | 'seal'>,
  caller: Caller,
  { input, targets }: { input: PlanInput; targets: ReadonlyMap<string, Target> },
  row?: (plan: PlanContext) => IdempotencyRow | null,
): Promise<PlanContext> => {
  const { name = null, on_failure: onFailure = 'rollback' } = input;
  return startPlan(services, caller, { name, onFailure, steps: toStepInputs(input), targets }, row);
};

/** Creates the plan; resolves when it is durable and its first steps are requested. */
export async function startPlan(
  services: Pick<Services, 'actors' | 'clock' | 'newId' | 'seal'>,
  caller: Caller,
  { targets, ...plan }: NewPlan,
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
      ...plan,
      steps: plan.steps.map((step) => sealStep(services, id, step, targets?.get(step.deviceId)?.manifest ?? null)),
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

/** The devices of all steps. Refuses the plan if one of them is not the caller's. */
export async function loadStepTargets(
  services: TargetServices,
  caller: Caller,
  steps: readonly StepInput[],
): Promise<Outcome<ReadonlyMap<string, Target>>> {
  const ids = [...new Set(steps.map(({ deviceId }) => deviceId))];
  const targets = await loadTargets(services, caller, ids);
  return ids.every((id) => targets.has(id)) ? done(targets) : notFound('device');
}

async function dryRunSteps(
  services: Pick<Services, 'actors' | 'artifacts' | 'flags' | 'store'>,
  caller: Caller,
  steps: readonly StepInput[],
  targets: ReadonlyMap<string, Target>,
): Promise<z.infer<typeof dryRun>> {
  const tenant = await readTenant(services, caller);
  const verdicts = steps.map(async (step) => {
    const target = targets.get(step.deviceId) as Target;
    const release = await findRequestedRelease(services, caller, step);
    return {
      id: step.id,
      verdict: verdictFor(services, { tenant, target, step, release }),
      preview: effectOf(services, target, { ...step, release }) as z.infer<typeof previewBody>,
    };
  });
  return { steps: await Promise.all(verdicts) };
}

interface StepToJudge {
  tenant: CommittedTenant;
  target: Target;
  step: StepInput;
  release: RequestedRelease | null;
}

function verdictFor(
  services: GatewayServices,
  { tenant, target, step, release }: StepToJudge,
): z.infer<typeof verdict>['verdict'] {
  const { action, params, compensation } = step;
  const refusal = earlyRefusal(services, tenant, target.device);
  if (refusal !== null) return refusal.code;
  const command = { action, params, dryRun: false, confirmed: false, release };
  const gatewayVerdict = judge(gatewayFacts(services, tenant, target, command));
  if (gatewayVerdict.kind === 'refused') return gatewayVerdict.refusal.code;
  const undo = target.manifest?.capabilities.find((one) => one.action === compensation?.action);
  const needsConfirmation = gatewayVerdict.kind === 'confirmation' || undo?.safetyClass === 'CRITICAL';
  return needsConfirmation ? 'dry_run_required' : 'allowed';
}

export const cancelPlan = operation({
  name: 'cancelPlan',
  summary: 'Cancel a plan: no further steps start, and completed steps with a compensation are undone',
  input: z.strictObject({ id: idOf('plan'), reason: reason.optional() }),
  output: planAnswer,
  role: 'user',
  scope: 'execute:plans',
  // Completed steps are undone by commands.
  alsoScope: 'execute:commands',
  changes: true,
  audit: 'journal',
  inMaintenance: true,
  refuses: ['NOT_FOUND', 'ILLEGAL_TRANSITION'],
  example: { input: { reason: 'The guests have left.' } },
  needs: ['actors', 'clock'],
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
    const reply = await sendToActor(services, found.value.ref, event, (_, after) => idempotent?.toRow(answer(after)), {
      allowNoOp: true,
    });
    return reply.ok ? done(answer(reply.value.snapshot)) : reply;
  },
});
