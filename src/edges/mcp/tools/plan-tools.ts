import { isFinalPlanStatus } from '../../../domain/plan.ts';
import type { JsonObject } from '../../../domain/values.ts';
import { planAnswer } from '../../../operations/plans/plan-view.ts';
import { createPlan } from '../../../operations/plans/plans.ts';
import { refusalResult, toolResult } from '../tool-results.ts';
import { inputSchema, outputSchema } from '../tool-schemas.ts';
import { type Plan, PlanWait } from './plan-wait.ts';
import { DESTRUCTIVE, type McpTool, performWithToolNames } from './tool.ts';

const schema = inputSchema(createPlan.input);

const executePlan: McpTool = {
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
    const after = await new PlanWait(call, plan).run();
    return toolResult(planSummary(after), { plan: after } as unknown as JsonObject);
  },
};

function planSummary({ status }: Plan): string {
  if (isFinalPlanStatus(status)) return `The plan is over: ${status}.`;
  if (status === 'awaiting_confirmation') {
    return 'The plan waits for a confirmation: refer the user to the pending confirmations.';
  }
  return `The plan is ${status}. Follow it with get_plan_status.`;
}

export const planTools = [executePlan];
