import { type ContextNews, PATIENCE_MS } from '../domain/cognition.ts';
import { derivedId } from '../domain/derived-id.ts';
import type { PlanStatus } from '../domain/plan.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import type { Decision } from './decision.ts';
import type { Output } from './outputs.ts';
import type { PlanCognition, PlanContext, PlanEvent, PlanStep, StepWish } from './plan-types.ts';

// A plan in the making: what all that is decided about it does to its steps, and what follows from them.

/** Raised by the plan itself when its steps have changed, so that its phase and its clocks follow. */
export type InnerEvent = { type: 'self.advanced'; at: EpochMs };
export type AnyPlanEvent = PlanEvent | InnerEvent;
export type Of<Type extends AnyPlanEvent['type']> = Extract<AnyPlanEvent, { type: Type }>;
export type Decided = Decision<PlanContext>;
export type Moment = { at: EpochMs };

/** What one event does to a plan. */
export interface Work {
  context: PlanContext;
  at: EpochMs;
  outputs: Output[];
}

export const workOn = (context: PlanContext, { at }: Moment): Work => ({ context, at, outputs: [] });

export function put(work: Work, changes: Partial<PlanContext>): void {
  work.context = { ...work.context, ...changes };
}

/** Of a plan that somebody thinks about. */
export function putCognition(work: Work, changes: Partial<PlanCognition>): void {
  put(work, { cognition: { ...(work.context.cognition as PlanCognition), ...changes } });
}

/** Changes a step, and tells of it where its status is another one now. */
export function change(work: Work, id: string, changes: Partial<PlanStep>): void {
  const { steps } = work.context;
  const before = steps.find((step) => step.id === id) as PlanStep;
  const after = { ...before, ...changes };
  put(work, { steps: steps.map((step) => (step === before ? after : step)) });
  if (after.status !== before.status) tellOf(work, after, before);
}

/** One more step, as it was asked for. */
export const stepOf = (wish: StepWish): PlanStep => ({
  ...wish,
  status: 'pending',
  commandId: null,
  ask: null,
  ...{ parked: false, acted: false, finished: null, undo: null, error: null, undoError: null },
});

export function tellOf(work: Work, after: PlanStep, before: PlanStep | null): void {
  const { tenantId, id: planId, status } = work.context;
  const { id: stepId, status: stepStatus } = after;
  work.outputs.push({ type: 'plan.changed', tenantId, planId, status, stepId, stepStatus, at: work.at });
  tellThinker(work, {
    ...{ type: 'node', nodeId: stepId, from: before?.status ?? null, to: stepStatus },
    commandId: stepStatus === 'pending' ? null : after.commandId,
    error: after.undoError ?? after.error,
  });
}

/** For whoever thinks about the plan, where somebody does or did. */
export function tellThinker({ context, at, outputs }: Work, told: ContextNews): void {
  const { id, tenantId, cognition } = context;
  if (cognition === null) return;
  const about = { contextId: cognition.proposalId ?? id, tenantId, homeId: cognition.homeId, at };
  outputs.push({ type: 'context.changed', change: { ...about, ...told } });
}

/** What follows from the steps as they are now; the chart hears of it. */
export function decided(work: Work): Decided {
  const { context: before } = work;
  if (before.ending === null) startReady(work);
  else wind(work);
  const { steps } = work.context;
  if (!steps.some(({ ask }) => ask === 'held' || ask === 'pausing')) put(work, { wakeAt: null });
  expectWord(work);
  const status = wordFor(phaseOf(work.context));
  const outputs = work.outputs.map((output) => (output.type === 'plan.changed' ? { ...output, status } : output));
  const raised: InnerEvent = { type: 'self.advanced', at: work.at };
  return { changes: work.context, outputs, raised };
}

export const isUnderWay = ({ ask }: PlanStep): boolean => ask === 'asked' || ask === 'made';
export const isWaitedFor = ({ ask }: PlanStep): boolean => ask !== null;

/** It was done, or may have been, and something is known that undoes it. */
export const isToUndo = ({ acted, compensation, status }: PlanStep): boolean =>
  acted && compensation !== null && (status === 'succeeded' || status === 'failed');

const isUndoing = ({ status }: PlanStep): boolean => status === 'compensating';

/** Steps whose dependencies have all succeeded are asked for, side by side. */
function startReady(work: Work): void {
  const { steps, id: planId } = work.context;
  const done = new Set(steps.filter(({ status }) => status === 'succeeded').map(({ id }) => id));
  for (const { id, status, ask, dependsOn } of steps) {
    if (status !== 'pending' || ask !== null || !dependsOn.every((other) => done.has(other))) continue;
    const commandId = derivedId(work.at, planId, id, 'step');
    change(work, id, { commandId, ask: 'asked' });
    work.outputs.push({ type: 'plan.ask', planId, stepId: id, commandId });
  }
}

/** Nothing starts any more: what has not begun is left out; when nothing is under way, what was done is undone. */
function wind(work: Work): void {
  for (const { id, status, ask } of work.context.steps) {
    if (status === 'pending' && ask !== 'asked') change(work, id, { status: 'skipped', ask: null, commandId: null });
  }
  const { steps, ending } = work.context;
  if (ending === 'stop' || steps.some(isUnderWay) || steps.some(isUndoing)) return;
  const [last] = steps.filter(isToUndo).sort((a, b) => (b.finished as number) - (a.finished as number));
  if (last !== undefined) tryToUndo(work, last, 1);
}

export function tryToUndo(work: Work, { id }: PlanStep, tries: number): void {
  const { id: planId } = work.context;
  const commandId = derivedId(work.at, planId, id, 'compensation', tries);
  change(work, id, { status: 'compensating', ask: 'asked', parked: false, undo: { commandId, tries } });
  work.outputs.push({ type: 'plan.ask', planId, stepId: id, commandId });
}

/** A word is expected as soon as nothing of the plan is waited for. */
function expectWord(work: Work): void {
  const { cognition, steps } = work.context;
  if (cognition?.phase !== 'thinking') return;
  if (!steps.some(isWaitedFor)) {
    if (cognition.dueAt === null) putCognition(work, { dueAt: work.at + PATIENCE_MS });
  } else if (cognition.dueAt !== null) putCognition(work, { dueAt: null, overdue: false });
}

/** From now on it ends; what waits for a confirmation has not begun, and a plan that is cancelled takes all back it can. */
export function end(work: Work, ending: 'cancel' | 'rollback' | 'stop', why: string): void {
  put(work, { ending });
  if (isThought(work.context)) {
    endThought(work, {});
    const reason = ending === 'cancel' ? 'CANCELLED' : 'PREEMPTED';
    tellThinker(work, { type: 'interrupted', reason, detail: why });
  }
  for (const step of work.context.steps) if (isTakenBack(work.context, step)) withdraw(work, step);
}

/** Whoever thinks about it has not come to an end. */
export const isThought = ({ cognition }: PlanContext): boolean => cognition !== null && cognition.phase !== 'done';

export const endThought = (work: Work, how: Partial<PlanCognition>): void =>
  putCognition(work, { ...how, phase: 'done', dueAt: null, overdue: false });

export const isTakenBack = ({ ending }: PlanContext, { ask, status, undo }: PlanStep): boolean =>
  undo === null && ask === 'made' && (ending === 'cancel' || (ending !== null && status === 'awaiting_confirmation'));

export const withdraw = ({ context, outputs }: Work, { commandId }: PlanStep): void =>
  void outputs.push({
    type: 'actor.tell',
    to: { kind: 'command', id: commandId as Uuid },
    event: { type: 'plan.withdrawn', planId: context.id },
  });

/** Where a plan stands by its steps; `stopping` is a plan that is to fail, while something is still under way. */
export type Phase = PlanStatus | 'stopping';

export function phaseOf(context: PlanContext): Phase {
  const { steps, ending } = context;
  switch (ending) {
    case null:
      if (!isThought(context) && steps.every(({ status }) => status === 'succeeded')) return 'succeeded';
      if (steps.some(({ status }) => status === 'awaiting_confirmation')) return 'awaiting_confirmation';
      return steps.some(({ status }) => status !== 'pending') ? 'running' : 'pending';
    case 'stop':
      return steps.some(isUnderWay) ? 'stopping' : 'failed';
    default:
      if (steps.some((step) => isUnderWay(step) || isUndoing(step) || isToUndo(step))) return 'rolling_back';
      if (steps.some(({ status }) => status === 'compensation_failed')) return 'rollback_failed';
      return ending === 'cancel' ? 'cancelled' : 'rolled_back';
  }
}

const wordFor = (phase: Phase): PlanStatus => (phase === 'stopping' ? 'running' : phase);

/** Where whoever thinks about it stands: `working` while steps are under way, and nothing is expected of them. */
export type Mind = 'none' | 'thinking' | 'working' | 'suspended' | 'unheard' | 'done';

export function mindOf({ cognition, steps }: PlanContext): Mind {
  if (cognition === null) return 'none';
  if (cognition.phase !== 'thinking') return cognition.phase;
  if (steps.some(isWaitedFor)) return 'working';
  return cognition.overdue ? 'unheard' : 'thinking';
}

export const left = (until: EpochMs | null, { at }: Moment): Milliseconds => Math.max(0, (until ?? at) - at);
