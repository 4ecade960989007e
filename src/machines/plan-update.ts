import { type ContextChangeBody, PLANNER_TIMEOUT_MS, type PlannerPhase } from '../domain/cognition.ts';
import { derivedId } from '../domain/derived-id.ts';
import type { PlanStatus, StepStatus } from '../domain/plan.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import { changeLive, type Decision } from './decision.ts';
import type { Output } from './outputs.ts';
import type { PlanCognition, PlanContext, PlanEvent, PlanLive, PlanStep, StepInput } from './plan-types.ts';

// A plan during one transition: changes to its steps, and the consequences of those changes.

/** Raised by the machine after its steps have changed, so that its phase and timers follow. */
export type RaisedPlanEvent = { type: 'self.advanced'; at: EpochMs };
export type AnyPlanEvent = PlanEvent | RaisedPlanEvent;
export type PlanEventOf<Type extends AnyPlanEvent['type']> = Extract<AnyPlanEvent, { type: Type }>;
export type Decided = Decision<PlanContext>;
export type Timestamped = { at: EpochMs };

/** The accumulated effect of one event on a plan. */
export interface PlanUpdate {
  context: PlanContext;
  at: EpochMs;
  outputs: Output[];
}

export const beginUpdate = (context: PlanContext, { at }: Timestamped): PlanUpdate => ({ context, at, outputs: [] });

export function updateContext(update: PlanUpdate, changes: Partial<PlanLive>): void {
  const { context } = update;
  update.context = { fixed: context.fixed, ...changeLive(context, changes) };
}

/** Only for a plan with a planner. */
export function updateCognition(update: PlanUpdate, changes: Partial<PlanCognition>): void {
  updateContext(update, { cognition: { ...(update.context.live.cognition as PlanCognition), ...changes } });
}

/** Changes a step, and announces the change if its status differs. */
export function updateStep(update: PlanUpdate, id: string, changes: Partial<PlanStep>): void {
  const { steps } = update.context.live;
  const before = steps.find((step) => step.id === id) as PlanStep;
  const after = withoutNeedlessParams({ ...before, ...changes });
  updateContext(update, { steps: steps.map((step) => (step === before ? after : step)) });
  if (after.status !== before.status) emitStepChanged(update, after, before);
}

/** Drops sealed parameters that no command needs any longer. `ended`: the plan has ended. */
export function withoutNeedlessParams(step: PlanStep, ended = false): PlanStep {
  const { sealedParams, sealedCompensation, status } = step;
  const drops = typeof sealedParams === 'string' && (ended || status !== 'pending');
  const dropsCompensation = typeof sealedCompensation === 'string' && (ended || !mayNeedCompensation[status]);
  if (!drops && !dropsCompensation) return step;
  return { ...step, ...(drops && { sealedParams: null }), ...(dropsCompensation && { sealedCompensation: null }) };
}

const mayNeedCompensation: Readonly<Record<StepStatus, boolean>> = {
  pending: true,
  running: true,
  awaiting_confirmation: true,
  succeeded: true,
  failed: true,
  skipped: false,
  compensating: true,
  compensated: false,
  compensation_failed: false,
};

/** A new step from its input. */
export const newStep = (input: StepInput): PlanStep => ({
  ...input,
  status: 'pending',
  commandId: null,
  ask: null,
  ...{ parked: false, acted: false, finished: null, undo: null, error: null, undoError: null },
});

export function emitStepChanged(update: PlanUpdate, after: PlanStep, before: PlanStep | null): void {
  const { tenantId, id: planId } = update.context.fixed;
  const { status } = update.context.live;
  const { id: stepId, status: stepStatus } = after;
  update.outputs.push({ type: 'plan.changed', tenantId, planId, status, stepId, stepStatus, at: update.at });
  notifyPlanner(update, {
    ...{ type: 'node', nodeId: stepId, from: before?.status ?? null, to: stepStatus },
    commandId: stepStatus === 'pending' ? null : after.commandId,
    error: after.undoError ?? after.error,
  });
}

/** Emits a context change for the planner, if the plan has one. */
export function notifyPlanner({ context, at, outputs }: PlanUpdate, change: ContextChangeBody): void {
  const { id, tenantId } = context.fixed;
  const { cognition } = context.live;
  if (cognition === null) return;
  const contextRef = { contextId: cognition.proposalId ?? id, tenantId, homeId: cognition.homeId, at };
  outputs.push({ type: 'context.changed', change: { ...contextRef, ...change } });
}

/** Applies the consequences of the steps' new state, and raises `self.advanced`. */
export function finishUpdate(update: PlanUpdate): Decided {
  const { context: before } = update;
  if (before.live.ending === null) startReady(update);
  else unwind(update);
  const { steps } = update.context.live;
  if (!steps.some(({ ask }) => ask === 'held' || ask === 'pausing')) updateContext(update, { wakeAt: null });
  updatePlannerDeadline(update);
  const status = statusOfPhase(phaseOf(update.context));
  const outputs = update.outputs.map((output) => (output.type === 'plan.changed' ? { ...output, status } : output));
  const raised: RaisedPlanEvent = { type: 'self.advanced', at: update.at };
  return { changes: update.context, outputs, raised };
}

export const isUnderWay = ({ ask }: PlanStep): boolean => ask === 'asked' || ask === 'made';
export const isOutstanding = ({ ask }: PlanStep): boolean => ask !== null;

/** Whether the step may have been executed and has a compensation that has not run. */
export const needsCompensation = ({ acted, compensation, status }: PlanStep): boolean =>
  acted && compensation !== null && (status === 'succeeded' || status === 'failed');

const isUndoing = ({ status }: PlanStep): boolean => status === 'compensating';

/** Requests the commands of all steps whose dependencies have succeeded. */
function startReady(update: PlanUpdate): void {
  const { id: planId } = update.context.fixed;
  const { steps } = update.context.live;
  const done = new Set(steps.filter(({ status }) => status === 'succeeded').map(({ id }) => id));
  for (const { id, status, ask, dependsOn } of steps) {
    if (status !== 'pending' || ask !== null || !dependsOn.every((other) => done.has(other))) continue;
    const commandId = derivedId(update.at, planId, id, 'step');
    updateStep(update, id, { commandId, ask: 'asked' });
    update.outputs.push({ type: 'plan.ask', planId, stepId: id, commandId });
  }
}

/**
 * Skips steps that have not started. Once no step is under way, compensates finished steps, one at a time, last first.
 */
function unwind(update: PlanUpdate): void {
  for (const { id, status, ask } of update.context.live.steps) {
    if (status === 'pending' && ask !== 'asked')
      updateStep(update, id, { status: 'skipped', ask: null, commandId: null });
  }
  const { steps, ending } = update.context.live;
  if (ending === 'stop' || steps.some(isUnderWay) || steps.some(isUndoing)) return;
  const [last] = steps.filter(needsCompensation).sort((a, b) => (b.finished as number) - (a.finished as number));
  if (last !== undefined) requestCompensation(update, last, 1);
}

export function requestCompensation(update: PlanUpdate, { id }: PlanStep, tries: number): void {
  const { id: planId } = update.context.fixed;
  const commandId = derivedId(update.at, planId, id, 'compensation', tries);
  updateStep(update, id, { status: 'compensating', ask: 'asked', parked: false, undo: { commandId, tries } });
  update.outputs.push({ type: 'plan.ask', planId, stepId: id, commandId });
}

/** The planner's deadline runs only while no step is outstanding. */
function updatePlannerDeadline(update: PlanUpdate): void {
  const { cognition, steps } = update.context.live;
  if (cognition?.phase !== 'thinking') return;
  if (!steps.some(isOutstanding)) {
    if (cognition.dueAt === null) updateCognition(update, { dueAt: update.at + PLANNER_TIMEOUT_MS });
  } else if (cognition.dueAt !== null) updateCognition(update, { dueAt: null, overdue: false });
}

/**
 * Begins the end of the plan. Withdraws commands that await confirmation, because they have not started; a cancelled
 * plan withdraws all its commands that are not written yet.
 */
export function endPlan(update: PlanUpdate, ending: 'cancel' | 'rollback' | 'stop', detail: string): void {
  updateContext(update, { ending });
  if (isPlannerActive(update.context)) {
    endPlanning(update, {});
    const reason = ending === 'cancel' ? 'CANCELLED' : 'PREEMPTED';
    notifyPlanner(update, { type: 'interrupted', reason, detail });
  }
  for (const step of update.context.live.steps) if (mustWithdraw(update.context, step)) withdrawCommand(update, step);
}

/** Whether the plan has a planner that is not done. */
export const isPlannerActive = ({ live: { cognition } }: PlanContext): boolean =>
  cognition !== null && cognition.phase !== 'done';

export const endPlanning = (update: PlanUpdate, changes: Partial<PlanCognition>): void =>
  updateCognition(update, { ...changes, phase: 'done', dueAt: null, overdue: false });

export const mustWithdraw = ({ live: { ending } }: PlanContext, { ask, status, undo }: PlanStep): boolean =>
  undo === null && ask === 'made' && (ending === 'cancel' || (ending !== null && status === 'awaiting_confirmation'));

export const withdrawCommand = ({ context, outputs }: PlanUpdate, { commandId }: PlanStep): void =>
  void outputs.push({
    type: 'actor.tell',
    to: { kind: 'command', id: commandId as Uuid },
    event: { type: 'plan.withdrawn', planId: context.fixed.id },
  });

/** The phase of a plan, derived from its steps; `stopping` is a plan that will fail once its steps under way finish. */
export type PlanPhase = PlanStatus | 'stopping';

export function phaseOf(context: PlanContext): PlanPhase {
  const { steps, ending } = context.live;
  switch (ending) {
    case null:
      if (!isPlannerActive(context) && steps.every(({ status }) => status === 'succeeded')) return 'succeeded';
      if (steps.some(({ status }) => status === 'awaiting_confirmation')) return 'awaiting_confirmation';
      return steps.some(({ status }) => status !== 'pending') ? 'running' : 'pending';
    case 'stop':
      return steps.some(isUnderWay) ? 'stopping' : 'failed';
    case 'cancel':
    case 'rollback':
      if (steps.some((step) => isUnderWay(step) || isUndoing(step) || needsCompensation(step))) return 'rolling_back';
      if (steps.some(({ status }) => status === 'compensation_failed')) return 'rollback_failed';
      if (ending === 'cancel') return 'cancelled';
      // Without a step that was executed there is nothing to roll back.
      return steps.some(({ acted }) => acted) ? 'rolled_back' : 'failed';
  }
}

const statusOfPhase = (phase: PlanPhase): PlanStatus => (phase === 'stopping' ? 'running' : phase);

/** The planner's state; `working` while steps are under way and no planner event is awaited. */
export type PlannerState = PlannerPhase | 'none' | 'working' | 'unheard';

export function plannerStateOf({ live: { cognition, steps } }: PlanContext): PlannerState {
  if (cognition === null) return 'none';
  if (cognition.phase !== 'thinking') return cognition.phase;
  if (steps.some(isOutstanding)) return 'working';
  return cognition.overdue ? 'unheard' : 'thinking';
}

export const msUntil = (until: EpochMs | null, { at }: Timestamped): Milliseconds => Math.max(0, (until ?? at) - at);
