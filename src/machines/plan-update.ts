import { type ContextChangeBody, PLANNER_TIMEOUT_MS } from '../domain/cognition.ts';
import { derivedId } from '../domain/derived-id.ts';
import type { PlanStatus } from '../domain/plan.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import type { Decision } from './decision.ts';
import type { Output } from './outputs.ts';
import type { PlanCognition, PlanContext, PlanEvent, PlanStep, StepInput } from './plan-types.ts';

// A plan in the making: what all that is decided about it does to its steps, and what follows from them.

/** Raised by the plan itself when its steps have changed, so that its phase and its clocks follow. */
export type RaisedEvent = { type: 'self.advanced'; at: EpochMs };
export type AnyPlanEvent = PlanEvent | RaisedEvent;
export type EventOf<Type extends AnyPlanEvent['type']> = Extract<AnyPlanEvent, { type: Type }>;
export type Decided = Decision<PlanContext>;
export type Moment = { at: EpochMs };

/** What one event does to a plan. */
export interface PlanUpdate {
  context: PlanContext;
  at: EpochMs;
  outputs: Output[];
}

export const beginUpdate = (context: PlanContext, { at }: Moment): PlanUpdate => ({ context, at, outputs: [] });

export function updateContext(work: PlanUpdate, changes: Partial<PlanContext>): void {
  work.context = { ...work.context, ...changes };
}

/** Of a plan that somebody thinks about. */
export function updateCognition(work: PlanUpdate, changes: Partial<PlanCognition>): void {
  updateContext(work, { cognition: { ...(work.context.cognition as PlanCognition), ...changes } });
}

/** Changes a step, and tells of it where its status is another one now. */
export function updateStep(work: PlanUpdate, id: string, changes: Partial<PlanStep>): void {
  const { steps } = work.context;
  const before = steps.find((step) => step.id === id) as PlanStep;
  const after = { ...before, ...changes };
  updateContext(work, { steps: steps.map((step) => (step === before ? after : step)) });
  if (after.status !== before.status) emitStepChanged(work, after, before);
}

/** One more step, as it was asked for. */
export const newStep = (wish: StepInput): PlanStep => ({
  ...wish,
  status: 'pending',
  commandId: null,
  ask: null,
  ...{ parked: false, acted: false, finished: null, undo: null, error: null, undoError: null },
});

export function emitStepChanged(work: PlanUpdate, after: PlanStep, before: PlanStep | null): void {
  const { tenantId, id: planId, status } = work.context;
  const { id: stepId, status: stepStatus } = after;
  work.outputs.push({ type: 'plan.changed', tenantId, planId, status, stepId, stepStatus, at: work.at });
  notifyPlanner(work, {
    ...{ type: 'node', nodeId: stepId, from: before?.status ?? null, to: stepStatus },
    commandId: stepStatus === 'pending' ? null : after.commandId,
    error: after.undoError ?? after.error,
  });
}

/** For whoever thinks about the plan, where somebody does or did. */
export function notifyPlanner({ context, at, outputs }: PlanUpdate, told: ContextChangeBody): void {
  const { id, tenantId, cognition } = context;
  if (cognition === null) return;
  const about = { contextId: cognition.proposalId ?? id, tenantId, homeId: cognition.homeId, at };
  outputs.push({ type: 'context.changed', change: { ...about, ...told } });
}

/** What follows from the steps as they are now; the chart hears of it. */
export function finishUpdate(work: PlanUpdate): Decided {
  const { context: before } = work;
  if (before.ending === null) startReady(work);
  else unwind(work);
  const { steps } = work.context;
  if (!steps.some(({ ask }) => ask === 'held' || ask === 'pausing')) updateContext(work, { wakeAt: null });
  updatePlannerDeadline(work);
  const status = statusOfPhase(phaseOf(work.context));
  const outputs = work.outputs.map((output) => (output.type === 'plan.changed' ? { ...output, status } : output));
  const raised: RaisedEvent = { type: 'self.advanced', at: work.at };
  return { changes: work.context, outputs, raised };
}

export const isUnderWay = ({ ask }: PlanStep): boolean => ask === 'asked' || ask === 'made';
export const isOutstanding = ({ ask }: PlanStep): boolean => ask !== null;

/** It was done, or may have been, and something is known that undoes it. */
export const needsCompensation = ({ acted, compensation, status }: PlanStep): boolean =>
  acted && compensation !== null && (status === 'succeeded' || status === 'failed');

const isUndoing = ({ status }: PlanStep): boolean => status === 'compensating';

/** Steps whose dependencies have all succeeded are asked for, side by side. */
function startReady(work: PlanUpdate): void {
  const { steps, id: planId } = work.context;
  const done = new Set(steps.filter(({ status }) => status === 'succeeded').map(({ id }) => id));
  for (const { id, status, ask, dependsOn } of steps) {
    if (status !== 'pending' || ask !== null || !dependsOn.every((other) => done.has(other))) continue;
    const commandId = derivedId(work.at, planId, id, 'step');
    updateStep(work, id, { commandId, ask: 'asked' });
    work.outputs.push({ type: 'plan.ask', planId, stepId: id, commandId });
  }
}

/** Nothing starts any more: what has not begun is left out; when nothing is under way, what was done is undone. */
function unwind(work: PlanUpdate): void {
  for (const { id, status, ask } of work.context.steps) {
    if (status === 'pending' && ask !== 'asked')
      updateStep(work, id, { status: 'skipped', ask: null, commandId: null });
  }
  const { steps, ending } = work.context;
  if (ending === 'stop' || steps.some(isUnderWay) || steps.some(isUndoing)) return;
  const [last] = steps.filter(needsCompensation).sort((a, b) => (b.finished as number) - (a.finished as number));
  if (last !== undefined) requestCompensation(work, last, 1);
}

export function requestCompensation(work: PlanUpdate, { id }: PlanStep, tries: number): void {
  const { id: planId } = work.context;
  const commandId = derivedId(work.at, planId, id, 'compensation', tries);
  updateStep(work, id, { status: 'compensating', ask: 'asked', parked: false, undo: { commandId, tries } });
  work.outputs.push({ type: 'plan.ask', planId, stepId: id, commandId });
}

/** A word is expected as soon as nothing of the plan is waited for. */
function updatePlannerDeadline(work: PlanUpdate): void {
  const { cognition, steps } = work.context;
  if (cognition?.phase !== 'thinking') return;
  if (!steps.some(isOutstanding)) {
    if (cognition.dueAt === null) updateCognition(work, { dueAt: work.at + PLANNER_TIMEOUT_MS });
  } else if (cognition.dueAt !== null) updateCognition(work, { dueAt: null, overdue: false });
}

/** From now on it ends; what waits for a confirmation has not begun, and a plan that is cancelled takes all back it can. */
export function endPlan(work: PlanUpdate, ending: 'cancel' | 'rollback' | 'stop', why: string): void {
  updateContext(work, { ending });
  if (isPlannerActive(work.context)) {
    endPlanning(work, {});
    const reason = ending === 'cancel' ? 'CANCELLED' : 'PREEMPTED';
    notifyPlanner(work, { type: 'interrupted', reason, detail: why });
  }
  for (const step of work.context.steps) if (mustWithdraw(work.context, step)) withdrawCommand(work, step);
}

/** Whoever thinks about it has not come to an end. */
export const isPlannerActive = ({ cognition }: PlanContext): boolean =>
  cognition !== null && cognition.phase !== 'done';

export const endPlanning = (work: PlanUpdate, how: Partial<PlanCognition>): void =>
  updateCognition(work, { ...how, phase: 'done', dueAt: null, overdue: false });

export const mustWithdraw = ({ ending }: PlanContext, { ask, status, undo }: PlanStep): boolean =>
  undo === null && ask === 'made' && (ending === 'cancel' || (ending !== null && status === 'awaiting_confirmation'));

export const withdrawCommand = ({ context, outputs }: PlanUpdate, { commandId }: PlanStep): void =>
  void outputs.push({
    type: 'actor.tell',
    to: { kind: 'command', id: commandId as Uuid },
    event: { type: 'plan.withdrawn', planId: context.id },
  });

/** Where a plan stands by its steps; `stopping` is a plan that is to fail, while something is still under way. */
export type PlanPhase = PlanStatus | 'stopping';

export function phaseOf(context: PlanContext): PlanPhase {
  const { steps, ending } = context;
  switch (ending) {
    case null:
      if (!isPlannerActive(context) && steps.every(({ status }) => status === 'succeeded')) return 'succeeded';
      if (steps.some(({ status }) => status === 'awaiting_confirmation')) return 'awaiting_confirmation';
      return steps.some(({ status }) => status !== 'pending') ? 'running' : 'pending';
    case 'stop':
      return steps.some(isUnderWay) ? 'stopping' : 'failed';
    default:
      if (steps.some((step) => isUnderWay(step) || isUndoing(step) || needsCompensation(step))) return 'rolling_back';
      if (steps.some(({ status }) => status === 'compensation_failed')) return 'rollback_failed';
      return ending === 'cancel' ? 'cancelled' : 'rolled_back';
  }
}

const statusOfPhase = (phase: PlanPhase): PlanStatus => (phase === 'stopping' ? 'running' : phase);

/** Where whoever thinks about it stands: `working` while steps are under way, and nothing is expected of them. */
export type PlannerState = 'none' | 'thinking' | 'working' | 'suspended' | 'unheard' | 'done';

export function plannerStateOf({ cognition, steps }: PlanContext): PlannerState {
  if (cognition === null) return 'none';
  if (cognition.phase !== 'thinking') return cognition.phase;
  if (steps.some(isOutstanding)) return 'working';
  return cognition.overdue ? 'unheard' : 'thinking';
}

export const msUntil = (until: EpochMs | null, { at }: Moment): Milliseconds => Math.max(0, (until ?? at) - at);
