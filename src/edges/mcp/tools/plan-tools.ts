import type { z } from 'zod';
import { isFinalPlanStatus, stepPhaseOf } from '../../../domain/plan.ts';
import type { JsonObject, Milliseconds, Uuid } from '../../../domain/values.ts';
import { findPlan, planAnswer, type planRecord, planRecordOf } from '../../../operations/plans/plan-view.ts';
import { cancelPlan, createPlan } from '../../../operations/plans/plans.ts';
import { refusalResult, toolResult } from '../tool-results.ts';
import { inputSchema, outputSchema } from '../tool-schemas.ts';
import { DESTRUCTIVE, performWithToolNames, type Tool, type ToolCall } from './tool.ts';

type Plan = z.infer<typeof planRecord>;

/**
 * How long a call waits for its plan: long enough for short plans to finish, and shorter than the client's request
 * timeout, which would cancel the plan. A client that receives progress notifications waits longer.
 */
const WAIT_MS: Milliseconds = 3_000;
const WAIT_WITH_PROGRESS_MS: Milliseconds = 45_000;

const schema = inputSchema(createPlan.input);

const executePlan: Tool = {
  name: 'execute_plan',
  title: 'Run several steps as one',
  description:
    'Runs steps on devices, each as soon as the steps that it depends on have succeeded; independent steps run in parallel. When a step fails, the completed steps that have a compensation are undone, the last one first. Critical steps wait until the user approves them in the pending confirmations. dry_run: true returns the expected result of each step. The answer for a long plan is returned while it still runs: follow it with get_plan_status. Cancelling the call cancels the plan.',
  annotations: DESTRUCTIVE,
  operation: createPlan,
  inputSchema: schema,
  outputSchema: outputSchema(createPlan.output),
  async call(call) {
    const outcome = await performWithToolNames(call.perform, createPlan, { ...call, schema });
    if (!outcome.ok) return refusalResult(outcome.refusal);
    const { body, status } = outcome.value;
    if (status === 200)
      return toolResult(
        'Dry run: nothing was done. The result has the expected outcome of each step.',
        body as JsonObject,
      );
    const { plan } = planAnswer.parse(body);
    const after = await waitForPlan(call, plan);
    return toolResult(planSummary(after), { plan: after } as unknown as JsonObject);
  },
};

/** Waits until the plan is over, waits for a user, or the time limit is reached. Returns its last known state. */
async function waitForPlan(call: ToolCall, created: Plan): Promise<Plan> {
  const { services, caller, client } = call;
  let plan = created;
  let reported = 0;
  let reading: Promise<void> | null = null;
  let readAgain = false;

  const read = async (): Promise<void> => {
    do {
      readAgain = false;
      const found = await findPlan(services, caller, created.id);
      if (found.ok) plan = planRecordOf(found.value.snapshot.context);
      const done = plan.steps.filter(({ status }) => stepPhaseOf(status) === 'final').length;
      if (done > reported) {
        reported = done;
        client.reportProgress?.(done, plan.steps.length, `The plan is ${plan.status}.`);
      }
    } while (readAgain && !isFinalOrAwaitingUser(plan));
  };

  await new Promise<void>((resolve) => {
    const refresh = (): void => {
      if (reading !== null) {
        readAgain = true;
        return;
      }
      reading = read()
        .catch(() => {}) // the last known state is returned
        .then(() => {
          reading = null;
          if (isFinalOrAwaitingUser(plan)) end();
          else if (readAgain) refresh();
        });
    };
    const unsubscribe = services.actors.subscribe('plan.changed', ({ planId }) => {
      if (planId === created.id) refresh();
    });
    const timer = setTimeout(end, client.reportProgress === null ? WAIT_MS : WAIT_WITH_PROGRESS_MS);
    const onCancelled = (): void => {
      void cancelOnRequest(call, created.id).then(end);
    };
    const onStopping = (): void => {
      void read()
        .catch(() => {})
        .then(end);
    };
    function end(): void {
      unsubscribe();
      clearTimeout(timer);
      client.cancelled.removeEventListener('abort', onCancelled);
      client.stopping.removeEventListener('abort', onStopping);
      resolve();
    }
    client.cancelled.addEventListener('abort', onCancelled, { once: true });
    client.stopping.addEventListener('abort', onStopping, { once: true });
    if (client.stopping.aborted) onStopping();
    else if (client.cancelled.aborted) onCancelled();
    else refresh();
  });
  return plan;
}

/** A plan that is over by now is not changed. */
const cancelOnRequest = ({ perform, caller }: ToolCall, id: Uuid) =>
  perform(cancelPlan, { input: { id, reason: 'The client cancelled the call.' }, caller, keyed: null });

const isFinalOrAwaitingUser = ({ status, steps }: Plan): boolean =>
  isFinalPlanStatus(status) ||
  (status === 'awaiting_confirmation' && !steps.some((step) => stepPhaseOf(step.status) === 'active'));

function planSummary({ status }: Plan): string {
  if (isFinalPlanStatus(status)) return `The plan is over: ${status}.`;
  if (status === 'awaiting_confirmation') {
    return 'The plan waits for a confirmation: refer the user to the pending confirmations.';
  }
  return `The plan is ${status}. Follow it with get_plan_status.`;
}

export const planTools = [executePlan];
