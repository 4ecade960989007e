import { CONTEXT_LIFE_MS } from '../domain/cognition.ts';
import { jsonEqual } from '../domain/json/value.ts';
import { addShapingMemories } from '../domain/memory.ts';
import { graphErrors, MAX_STEPS } from '../domain/plan.ts';
import type { EpochMs, Json, Milliseconds } from '../domain/values.ts';
import { changeLive, emitRefusal } from './decision.ts';
import type { PlanCognition, PlanContext, StepError, StepInput } from './plan-types.ts';
import {
  beginUpdate,
  type Decided,
  emitStepChanged,
  endPlan,
  endPlanning,
  finishUpdate,
  isOutstanding,
  isPlannerActive,
  msUntil,
  newStep,
  notifyPlanner,
  type PlanEventOf,
  type PlannerState,
  type PlanUpdate,
  plannerStateOf,
  type Timestamped,
  updateCognition,
  updateContext,
} from './plan-update.ts';

// Decisions on the planner's events: it adds steps, suspends, or ends planning. It cannot confirm, accept or cancel.

export type PlannerEventType = 'node.proposed' | 'cognition.suspended' | 'cognition.completed' | 'cognition.failed';

/** Planning is finished whenever the plan is ending or over (`endPlan`). */
export const refusePlannerEvent = (
  { live: { cognition } }: PlanContext,
  { type }: PlanEventOf<PlannerEventType>,
): Decided => {
  if (cognition === null) return emitRefusal('NOT_FOUND', 'This plan has no planner.');
  const detail = 'Planning is finished.';
  return emitRefusal('CONFLICT', type === 'node.proposed' ? `${detail} No more steps can be added.` : detail);
};

/** Restarts the planner's deadline after one of its events. */
function resetPlannerDeadline(context: PlanContext, event: Timestamped): PlanUpdate {
  const update = beginUpdate(context, event);
  updateCognition(update, { phase: 'thinking', dueAt: null, overdue: false });
  return update;
}

export function propose(context: PlanContext, event: PlanEventOf<'node.proposed'>): Decided {
  if (!isPlannerActive(context)) return refusePlannerEvent(context, event);
  const { node } = event;
  const known = context.live.steps.find(({ id }) => id === node.id);
  // The same proposal again: no change.
  if (known !== undefined && isSameStep(known, node)) return { changes: null, outputs: [] };
  const error = stepError(context, node);
  if (error !== null) return emitRefusal('VALIDATION_FAILED', error);
  const update = resetPlannerDeadline(context, event);
  const step = newStep(node);
  updateContext(update, { steps: [...context.live.steps, step] });
  const { memories: before = [] } = context.live.cognition as PlanCognition;
  const memories = addShapingMemories(before, node.id, event.memories ?? []);
  if (memories.length > 0) updateCognition(update, { memories });
  emitStepChanged(update, step, null);
  return finishUpdate(update);
}

function stepError({ live: { steps } }: PlanContext, node: StepInput): string | null {
  if (steps.some(({ id }) => id === node.id)) return `Another node already has the id '${node.id}'.`;
  if (steps.length >= MAX_STEPS) return `A plan can have at most ${MAX_STEPS} steps.`;
  const graph = [...steps, node].map(({ id, dependsOn }) => ({ id, depends_on: dependsOn }));
  const [error] = graphErrors(graph);
  return error === undefined ? null : `depends_on: ${error.message}.`;
}

const isSameStep = (known: StepInput, node: StepInput): boolean => jsonEqual(stepInputJson(known), stepInputJson(node));

const stepInputJson = ({ id, deviceId, action, params, dependsOn, compensation, timeoutS }: StepInput): Json => ({
  ...{ id, deviceId, action, params, timeoutS, dependsOn: [...dependsOn] },
  compensation: compensation && { ...compensation },
});

export function suspend(context: PlanContext, event: PlanEventOf<'cognition.suspended'>): Decided {
  if (!isPlannerActive(context)) return refusePlannerEvent(context, event);
  const until = Math.min(event.at + event.forMs, context.fixed.createdAt + CONTEXT_LIFE_MS);
  if (until <= event.at)
    return emitRefusal('CONFLICT', 'The context cannot be suspended: its request is more than a day old.');
  const update = resetPlannerDeadline(context, event);
  updateCognition(update, { phase: 'suspended', dueAt: until, suspensionReason: event.reason });
  return finishUpdate(update);
}

export function complete(context: PlanContext, event: PlanEventOf<'cognition.completed'>): Decided {
  if (!isPlannerActive(context)) return refusePlannerEvent(context, event);
  const update = beginUpdate(context, event);
  const { summary, finalState } = event;
  endPlanning(update, { summary, finalState });
  return finishUpdate(update);
}

export function fail(context: PlanContext, event: PlanEventOf<'cognition.failed'>): Decided {
  if (!isPlannerActive(context)) return refusePlannerEvent(context, event);
  const update = beginUpdate(context, event);
  // The planner reported the failure itself, so no interruption is sent to it.
  endPlanning(update, { error: event.error });
  endPlan(update, context.fixed.onFailure, event.error.detail);
  return finishUpdate(update);
}

/** Ends the suspension and notifies the planner. */
export function resumePlanner(context: PlanContext, event: Timestamped): Decided {
  const update = resetPlannerDeadline(context, event);
  notifyPlanner(update, { type: 'opened' });
  return finishUpdate(update);
}

/** Reports that the deadline passed. The runtime checks flags and suspensions, which a machine cannot read. */
export function reportPlannerTimeout(context: PlanContext): Decided {
  const cognition = context.live.cognition as PlanCognition;
  return {
    changes: changeLive(context, { cognition: { ...cognition, overdue: true } }),
    outputs: [{ type: 'plan.unheard', planId: context.fixed.id, dueAt: cognition.dueAt as EpochMs }],
  };
}

export const isCurrentTimeout = (
  { live: { cognition } }: PlanContext,
  { dueAt }: PlanEventOf<'cognition.excused' | 'cognition.unheard'>,
) => cognition?.overdue === true && cognition.dueAt === dueAt;

export function extendPlannerDeadline(context: PlanContext, event: PlanEventOf<'cognition.excused'>): Decided {
  const update = beginUpdate(context, event);
  updateCognition(update, { dueAt: event.at + event.forMs, overdue: false });
  return finishUpdate(update);
}

const PLANNER_TIMEOUT_ERROR: StepError = {
  code: 'SIDECAR_UNAVAILABLE',
  detail: 'The cognitive sidecar did not respond for one minute.',
};

export function failPlannerTimeout(context: PlanContext, event: Timestamped): Decided {
  const update = beginUpdate(context, event);
  updateCognition(update, { error: PLANNER_TIMEOUT_ERROR });
  endPlan(update, context.fixed.onFailure, PLANNER_TIMEOUT_ERROR.detail);
  return finishUpdate(update);
}

/** Records the deadline that the starting timer is for. */
export function recordArmedDeadline(context: PlanContext): Decided {
  const cognition = context.live.cognition as PlanCognition;
  return { changes: changeLive(context, { cognition: { ...cognition, armedFor: cognition.dueAt } }), outputs: [] };
}

export const plannerIs = (context: PlanContext, _: object, { state }: { state: PlannerState }): boolean =>
  plannerStateOf(context) === state;

/** Whether steps are under way, so that no planner event is awaited. */
export const hasOutstandingSteps = ({ live: { steps } }: PlanContext): boolean => steps.some(isOutstanding);

export const isDeadlineChanged = ({ live: { cognition } }: PlanContext): boolean =>
  cognition?.armedFor !== cognition?.dueAt;

export const msUntilPlannerDeadline = ({ live: { cognition } }: PlanContext, event: Timestamped): Milliseconds =>
  msUntil(cognition?.dueAt ?? null, event);
