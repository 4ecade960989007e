import type { z } from 'zod';
import type { PlanStatus, StepStatus } from '../../../domain/plan.ts';
import type { JsonObject, Milliseconds, Uuid } from '../../../domain/values.ts';
import { findPlan, planAnswer, type planRecord, planRecordOf } from '../../../operations/plans/plan-view.ts';
import { cancelPlan, createPlan } from '../../../operations/plans/plans.ts';
import { refusalResult, toolResult } from '../tool-results.ts';
import { inputSchema, outputSchema } from '../tool-schemas.ts';
import { DESTRUCTIVE, performWithToolNames, type Tool, type ToolCall } from './tool.ts';

type Plan = z.infer<typeof planRecord>;

/**
 * How long a call waits for its plan: long enough that a short plan is over when it is answered, and not so long that a client
 * gives up first, which would cancel the plan. Who wants to know how far it is waits longer.
 */
const WAIT_MS: Milliseconds = 3_000;
const WAIT_WITH_PROGRESS_MS: Milliseconds = 45_000;

const finalPlanStatuses: ReadonlySet<PlanStatus> = new Set([
  'succeeded',
  'failed',
  'rolled_back',
  'rollback_failed',
  'cancelled',
]);
const activeStepStatuses: ReadonlySet<StepStatus> = new Set(['running', 'compensating']);
const finalStepStatuses: ReadonlySet<StepStatus> = new Set([
  'succeeded',
  'failed',
  'skipped',
  'compensated',
  'compensation_failed',
]);

const schema = inputSchema(createPlan.input);

const executePlan: Tool = {
  name: 'execute_plan',
  title: 'Run several steps as one',
  description:
    'Runs steps on devices, each as soon as those it depends on have succeeded; independent steps run side by side. When one fails, what was done is undone, the last first, where its step says how (compensation). Critical steps wait until the user approves them among the confirmations that wait. dry_run: true says what each step would come to. A long plan is answered while it still runs: follow it with get_plan_status. Taking the call back cancels the plan.',
  annotations: DESTRUCTIVE,
  operation: createPlan,
  inputSchema: schema,
  outputSchema: outputSchema(createPlan.output),
  async call(call) {
    const outcome = await performWithToolNames(call.perform, createPlan, { ...call, schema });
    if (!outcome.ok) return refusalResult(outcome.refusal);
    const { body, status } = outcome.value;
    if (status === 200)
      return toolResult('Nothing was done: this is what each step would come to.', body as JsonObject);
    const { plan } = planAnswer.parse(body);
    const after = await waitForPlan(call, plan);
    return toolResult(planSummary(after), { plan: after } as unknown as JsonObject);
  },
};

/** Waits until the plan is over or only a person can let it go on, as long as a call may; answers it as it is then. */
async function waitForPlan(call: ToolCall, made: Plan): Promise<Plan> {
  const { services, caller, client } = call;
  let plan = made;
  let told = 0;
  let reading: Promise<void> | null = null;
  let again = false;

  const read = async (): Promise<void> => {
    do {
      again = false;
      const found = await findPlan(services, caller, made.id);
      if (found.ok) plan = planRecordOf(found.value.snapshot.context);
      const done = plan.steps.filter(({ status }) => finalStepStatuses.has(status)).length;
      if (done > told) {
        told = done;
        client.reportProgress?.(done, plan.steps.length, `The plan is ${plan.status}.`);
      }
    } while (again && !isFinalOrAwaitingUser(plan));
  };

  await new Promise<void>((resolve) => {
    const look = (): void => {
      if (reading !== null) {
        again = true;
        return;
      }
      reading = read()
        .catch(() => {}) // the plan is answered as it was last seen
        .then(() => {
          reading = null;
          if (isFinalOrAwaitingUser(plan)) end();
          else if (again) look();
        });
    };
    const stop = services.actors.subscribe('plan.changed', ({ planId }) => {
      if (planId === made.id) look();
    });
    const late = setTimeout(end, client.reportProgress === null ? WAIT_MS : WAIT_WITH_PROGRESS_MS);
    const takenBack = (): void => {
      void cancelOnRequest(call, made.id).then(end);
    };
    const hurry = (): void => {
      void read()
        .catch(() => {})
        .then(end);
    };
    function end(): void {
      stop();
      clearTimeout(late);
      client.cancelled.removeEventListener('abort', takenBack);
      client.stopping.removeEventListener('abort', hurry);
      resolve();
    }
    client.cancelled.addEventListener('abort', takenBack, { once: true });
    client.stopping.addEventListener('abort', hurry, { once: true });
    if (client.stopping.aborted) hurry();
    else if (client.cancelled.aborted) takenBack();
    else look();
  });
  return plan;
}

/** What is over by now stays as it is. */
const cancelOnRequest = ({ perform, caller }: ToolCall, id: Uuid) =>
  perform(cancelPlan, { input: { id, reason: 'The call was taken back.' }, caller, keyed: null });

const isFinalOrAwaitingUser = ({ status, steps }: Plan): boolean =>
  finalPlanStatuses.has(status) ||
  (status === 'awaiting_confirmation' && !steps.some((step) => activeStepStatuses.has(step.status)));

function planSummary({ status }: Plan): string {
  if (finalPlanStatuses.has(status)) return `The plan is over: ${status}.`;
  if (status === 'awaiting_confirmation') {
    return 'The plan waits for a confirmation: ask the user to look at the confirmations that wait.';
  }
  return `The plan is ${status}. Follow it with get_plan_status.`;
}

export const planTools = [executePlan];
