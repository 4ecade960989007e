import { CONTEXT_LIFE_MS } from '../domain/cognition.ts';
import { jsonEqual } from '../domain/json/value.ts';
import { graphErrors, MAX_STEPS } from '../domain/plan.ts';
import type { EpochMs, Json, Milliseconds } from '../domain/values.ts';
import { emitRefusal } from './decision.ts';
import type { PlanCognition, PlanContext, StepError, StepInput } from './plan-types.ts';
import {
  beginUpdate,
  type Decided,
  type EventOf,
  emitStepChanged,
  endPlan,
  endPlanning,
  finishUpdate,
  isOutstanding,
  isPlannerActive,
  type Moment,
  msUntil,
  newStep,
  notifyPlanner,
  type PlannerState,
  type PlanUpdate,
  plannerStateOf,
  updateCognition,
  updateContext,
} from './plan-update.ts';

// The words of whoever thinks about a plan. They add steps, wait, or end; nothing here confirms, accepts or cancels.

type PlannerEventType = 'node.proposed' | 'cognition.suspended' | 'cognition.completed' | 'cognition.failed';

export const refusePlannerEvent = (
  { status, cognition }: PlanContext,
  { type }: EventOf<PlannerEventType>,
): Decided => {
  if (cognition === null) return emitRefusal('NOT_FOUND', 'Nobody is asked to think about this plan.');
  const over = cognition.phase === 'done' ? 'What was to be thought about it is over.' : `The plan is ${status}.`;
  return emitRefusal('CONFLICT', type === 'node.proposed' ? `${over} No step is added any more.` : over);
};

/** As whoever thinks was heard of: they have as long again. */
function resetPlannerDeadline(context: PlanContext, event: Moment): PlanUpdate {
  const work = beginUpdate(context, event);
  updateCognition(work, { phase: 'thinking', dueAt: null, overdue: false });
  return work;
}

export function propose(context: PlanContext, event: EventOf<'node.proposed'>): Decided {
  if (!isPlannerActive(context)) return refusePlannerEvent(context, event);
  const { node } = event;
  const known = context.steps.find(({ id }) => id === node.id);
  // Told twice: it is what it was.
  if (known !== undefined && isSameStep(known, node)) return { changes: null, outputs: [] };
  const wrong = stepFault(context, node);
  if (wrong !== null) return emitRefusal('VALIDATION_FAILED', wrong);
  const work = resetPlannerDeadline(context, event);
  const step = newStep(node);
  updateContext(work, { steps: [...context.steps, step] });
  emitStepChanged(work, step, null);
  return finishUpdate(work);
}

function stepFault({ steps }: PlanContext, node: StepInput): string | null {
  if (steps.some(({ id }) => id === node.id)) return `There is another node '${node.id}' already.`;
  if (steps.length >= MAX_STEPS) return `A plan has ${MAX_STEPS} steps at most.`;
  const graph = [...steps, node].map(({ id, dependsOn }) => ({ id, depends_on: dependsOn }));
  const [error] = graphErrors(graph);
  return error === undefined ? null : `depends_on ${error.message}`;
}

const isSameStep = (known: StepInput, node: StepInput): boolean => jsonEqual(stepInputJson(known), stepInputJson(node));

const stepInputJson = ({ id, deviceId, action, params, dependsOn, compensation, timeoutS }: StepInput): Json => ({
  ...{ id, deviceId, action, params, timeoutS, dependsOn: [...dependsOn] },
  compensation: compensation && { ...compensation },
});

export function suspend(context: PlanContext, event: EventOf<'cognition.suspended'>): Decided {
  if (!isPlannerActive(context)) return refusePlannerEvent(context, event);
  const until = Math.min(event.at + event.forMs, context.createdAt + CONTEXT_LIFE_MS);
  if (until <= event.at) return emitRefusal('CONFLICT', 'It has been thought about for a day.');
  const work = resetPlannerDeadline(context, event);
  updateCognition(work, { phase: 'suspended', dueAt: until });
  return finishUpdate(work);
}

export function complete(context: PlanContext, event: EventOf<'cognition.completed'>): Decided {
  if (!isPlannerActive(context)) return refusePlannerEvent(context, event);
  const work = beginUpdate(context, event);
  const { summary, finalState } = event;
  endPlanning(work, { summary, finalState });
  return finishUpdate(work);
}

export function fail(context: PlanContext, event: EventOf<'cognition.failed'>): Decided {
  if (!isPlannerActive(context)) return refusePlannerEvent(context, event);
  const work = beginUpdate(context, event);
  // They know it themselves: nobody interrupts them.
  endPlanning(work, { error: event.error });
  endPlan(work, context.onFailure, event.error.detail);
  return finishUpdate(work);
}

/** The suspension is over, whatever it waited for. */
export function resumePlanner(context: PlanContext, event: Moment): Decided {
  const work = resetPlannerDeadline(context, event);
  notifyPlanner(work, { type: 'opened' });
  return finishUpdate(work);
}

/** Silent for too long. Flags and suspensions are not for a machine to know. */
export function reportPlannerTimeout({ id, cognition }: PlanContext): Decided {
  const { dueAt } = cognition as { dueAt: EpochMs };
  return {
    changes: { cognition: { ...(cognition as PlanCognition), overdue: true } },
    outputs: [{ type: 'plan.unheard', planId: id, dueAt }],
  };
}

export const isCurrentTimeout = (
  { cognition }: PlanContext,
  { dueAt }: EventOf<'cognition.excused' | 'cognition.unheard'>,
) => cognition?.overdue === true && cognition.dueAt === dueAt;

export function extendPlannerDeadline(context: PlanContext, event: EventOf<'cognition.excused'>): Decided {
  const work = beginUpdate(context, event);
  updateCognition(work, { dueAt: event.at + event.forMs, overdue: false });
  return finishUpdate(work);
}

const PLANNER_TIMEOUT_ERROR: StepError = {
  code: 'SIDECAR_UNAVAILABLE',
  detail: 'The sidecar that was to think about it said nothing for a minute.',
};

export function failPlannerTimeout(context: PlanContext, event: Moment): Decided {
  const work = beginUpdate(context, event);
  updateCognition(work, { error: PLANNER_TIMEOUT_ERROR });
  endPlan(work, context.onFailure, PLANNER_TIMEOUT_ERROR.detail);
  return finishUpdate(work);
}

/** The timer that starts now is for this. */
export function recordArmedDeadline({ cognition }: PlanContext): Decided {
  const known = cognition as PlanCognition;
  return { changes: { cognition: { ...known, armedFor: known.dueAt } }, outputs: [] };
}

export const plannerIs = (context: PlanContext, _: object, { mind }: { mind: PlannerState }): boolean =>
  plannerStateOf(context) === mind;

/** Steps are under way, so that nothing would be expected. */
export const hasOutstandingSteps = ({ steps }: PlanContext): boolean => steps.some(isOutstanding);

export const isDeadlineChanged = ({ cognition }: PlanContext): boolean => cognition?.armedFor !== cognition?.dueAt;

export const msUntilPlannerDeadline = ({ cognition }: PlanContext, event: Moment): Milliseconds =>
  msUntil(cognition?.dueAt ?? null, event);
