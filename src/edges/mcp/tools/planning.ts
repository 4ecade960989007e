import type { z } from 'zod';
import type { PlanStatus, StepStatus } from '../../../domain/plan.ts';
import type { JsonObject, Milliseconds, Uuid } from '../../../domain/values.ts';
import { findPlan, planAnswer, planOf, type planRecord } from '../../../operations/plan-view.ts';
import { cancelPlan, createPlan } from '../../../operations/plans.ts';
import { refusedResult, resultOf } from '../results.ts';
import { inputSchema, outputSchema } from '../schemas.ts';
import { ACTS, asTool, type Tool, type ToolCall } from './tool.ts';

type Plan = z.infer<typeof planRecord>;

/**
 * How long a call waits for its plan: long enough that a short plan is over when it is answered, and not so long that a client
 * gives up first, which would cancel the plan. Who wants to know how far it is waits longer.
 */
const PATIENCE_MS: Milliseconds = 3_000;
const WATCHING_MS: Milliseconds = 45_000;

const over: ReadonlySet<PlanStatus> = new Set(['succeeded', 'failed', 'rolled_back', 'rollback_failed', 'cancelled']);
const underWay: ReadonlySet<StepStatus> = new Set(['running', 'compensating']);
const finished: ReadonlySet<StepStatus> = new Set([
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
  annotations: ACTS,
  operation: createPlan,
  inputSchema: schema,
  outputSchema: outputSchema(createPlan.output),
  async call(call) {
    const outcome = await asTool(call.perform, createPlan, { ...call, schema });
    if (!outcome.ok) return refusedResult(outcome.refusal);
    const { body, status } = outcome.value;
    if (status === 200) return resultOf('Nothing was done: this is what each step would come to.', body as JsonObject);
    const { plan } = planAnswer.parse(body);
    const after = await followed(call, plan);
    return resultOf(wordsFor(after), { plan: after } as unknown as JsonObject);
  },
};

/** Waits until the plan is over or only a person can let it go on, as long as a call may; answers it as it is then. */
async function followed(call: ToolCall, made: Plan): Promise<Plan> {
  const { services, caller, dialogue } = call;
  let plan = made;
  let told = 0;
  let reading: Promise<void> | null = null;
  let again = false;

  const read = async (): Promise<void> => {
    do {
      again = false;
      const found = await findPlan(services, caller, made.id);
      if (found.ok) plan = planOf(found.value.snapshot.context);
      const done = plan.steps.filter(({ status }) => finished.has(status)).length;
      if (done > told) {
        told = done;
        dialogue.progress?.(done, plan.steps.length, `The plan is ${plan.status}.`);
      }
    } while (again && !settled(plan));
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
          if (settled(plan)) end();
          else if (again) look();
        });
    };
    const stop = services.actors.subscribe('plan.changed', ({ planId }) => {
      if (planId === made.id) look();
    });
    const late = setTimeout(end, dialogue.progress === null ? PATIENCE_MS : WATCHING_MS);
    const takenBack = (): void => {
      void cancel(call, made.id).then(end);
    };
    const hurry = (): void => {
      void read()
        .catch(() => {})
        .then(end);
    };
    function end(): void {
      stop();
      clearTimeout(late);
      dialogue.cancelled.removeEventListener('abort', takenBack);
      dialogue.stopping.removeEventListener('abort', hurry);
      resolve();
    }
    dialogue.cancelled.addEventListener('abort', takenBack, { once: true });
    dialogue.stopping.addEventListener('abort', hurry, { once: true });
    if (dialogue.stopping.aborted) hurry();
    else if (dialogue.cancelled.aborted) takenBack();
    else look();
  });
  return plan;
}

/** What is over by now stays as it is. */
const cancel = ({ perform, caller }: ToolCall, id: Uuid) =>
  perform(cancelPlan, { input: { id, reason: 'The call was taken back.' }, caller, keyed: null });

const settled = ({ status, steps }: Plan): boolean =>
  over.has(status) || (status === 'awaiting_confirmation' && !steps.some((step) => underWay.has(step.status)));

function wordsFor({ status }: Plan): string {
  if (over.has(status)) return `The plan is over: ${status}.`;
  if (status === 'awaiting_confirmation') {
    return 'The plan waits for a confirmation: ask the user to look at the confirmations that wait.';
  }
  return `The plan is ${status}. Follow it with get_plan_status.`;
}

export const planning = [executePlan];
