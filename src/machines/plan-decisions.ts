import { derivedId } from '../domain/derived-id.ts';
import { COMPENSATION_RETRIES_MS, mayHaveActed, type PlanStatus, wordOf } from '../domain/plan.ts';
import type { EpochMs, Milliseconds, Uuid } from '../domain/values.ts';
import { type Decision, refusing } from './decision.ts';
import type { Output } from './outputs.ts';
import type { PlanContext, PlanEvent, PlanStep, StepError } from './plan-types.ts';

// What the plan's chart decides, as pure functions; where it goes with that is in plan.ts.

/** Raised by the plan itself when its steps have changed, so that its phase and its clock follow. */
export type InnerEvent = { type: 'self.advanced'; at: EpochMs };
export type AnyPlanEvent = PlanEvent | InnerEvent;
export type Of<Type extends AnyPlanEvent['type']> = Extract<AnyPlanEvent, { type: Type }>;
type Decided = Decision<PlanContext>;
type Moment = { at: EpochMs };

/** A plan in the making: what one event does to its steps. */
interface Work {
  context: PlanContext;
  at: EpochMs;
  outputs: Output[];
}

const workOn = (context: PlanContext, { at }: Moment): Work => ({ context, at, outputs: [] });

function put(work: Work, changes: Partial<PlanContext>): void {
  work.context = { ...work.context, ...changes };
}

/** Changes a step, and tells of it where its status is another one now. */
function change(work: Work, id: string, changes: Partial<PlanStep>): void {
  const { steps, tenantId, id: planId, status } = work.context;
  const before = steps.find((step) => step.id === id) as PlanStep;
  const after = { ...before, ...changes };
  put(work, { steps: steps.map((step) => (step === before ? after : step)) });
  if (after.status === before.status) return;
  const { at } = work;
  work.outputs.push({ type: 'plan.changed', tenantId, planId, status, stepId: id, stepStatus: after.status, at });
}

/** What follows from the steps as they are now; the chart hears of it. */
function decided(work: Work): Decided {
  const { context: before } = work;
  if (before.ending === null) startReady(work);
  else wind(work);
  const { steps } = work.context;
  if (!steps.some(({ ask }) => ask === 'held' || ask === 'pausing')) put(work, { wakeAt: null });
  const status = wordFor(phaseOf(work.context));
  const outputs = work.outputs.map((output) => (output.type === 'plan.changed' ? { ...output, status } : output));
  const raised: InnerEvent = { type: 'self.advanced', at: work.at };
  return { changes: work.context, outputs, raised };
}

const isUnderWay = ({ ask }: PlanStep): boolean => ask === 'asked' || ask === 'made';

/** It was done, or may have been, and something is known that undoes it. */
const isToUndo = ({ acted, compensation, status }: PlanStep): boolean =>
  acted && compensation !== null && (status === 'succeeded' || status === 'failed');

const isUndoing = ({ status }: PlanStep): boolean => status === 'compensating';

export function create(_: PlanContext, { at, plan }: Of<'create'>): Decided {
  const steps = plan.steps.map(
    (wish): PlanStep => ({
      ...wish,
      status: 'pending',
      commandId: null,
      ask: null,
      ...{ parked: false, acted: false, finished: null, undo: null, error: null, undoError: null },
    }),
  );
  const { id, tenantId, name, onFailure, createdBy, scopes, requestId } = plan;
  const context: PlanContext = {
    ...{ id, tenantId, name, onFailure, createdBy, scopes, requestId, createdAt: at, finishedAt: null },
    ...{ status: 'pending', steps, ending: null, finished: 0, wakeAt: null },
  };
  return decided(workOn(context, { at }));
}

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

function tryToUndo(work: Work, { id }: PlanStep, tries: number): void {
  const { id: planId } = work.context;
  const commandId = derivedId(work.at, planId, id, 'compensation', tries);
  change(work, id, { status: 'compensating', ask: 'asked', parked: false, undo: { commandId, tries } });
  work.outputs.push({ type: 'plan.ask', planId, stepId: id, commandId });
}

/** From now on it ends; what waits for a confirmation has not begun, and a plan that is cancelled takes all back it can. */
function end(work: Work, ending: 'cancel' | 'rollback' | 'stop'): void {
  put(work, { ending });
  for (const step of work.context.steps) if (isTakenBack(work.context, step)) withdraw(work, step);
}

const isTakenBack = ({ ending }: PlanContext, { ask, status, undo }: PlanStep): boolean =>
  undo === null && ask === 'made' && (ending === 'cancel' || (ending !== null && status === 'awaiting_confirmation'));

const withdraw = ({ context, outputs }: Work, { commandId }: PlanStep): void =>
  void outputs.push({
    type: 'actor.tell',
    to: { kind: 'command', id: commandId as Uuid },
    event: { type: 'plan.withdrawn', planId: context.id },
  });

export function cancel(context: PlanContext, event: Of<'cancel'>): Decided {
  const work = workOn(context, event);
  end(work, 'cancel');
  return decided(work);
}

export const refuseCancel = ({ status }: PlanContext): Decided =>
  refusing('ILLEGAL_TRANSITION', `The plan is ${status} and cannot be cancelled.`);

/** The step that waits for this command. */
const waitingFor = ({ steps }: PlanContext, commandId: Uuid): PlanStep | undefined =>
  steps.find((step) => isUnderWay(step) && (step.undo ?? step).commandId === commandId);

export const isAsked = (context: PlanContext, { commandId }: Of<'step.refused' | 'step.held'>): boolean =>
  waitingFor(context, commandId)?.ask === 'asked';

/** A command may tell twice, late, or in another order: what is known already is no news. */
export function isNews(context: PlanContext, { commandId, status, verification }: Of<'command.moved'>): boolean {
  const step = waitingFor(context, commandId);
  if (step === undefined) return false;
  const word = wordOf(status, verification);
  if (word === 'succeeded' || word === 'failed' || step.ask === 'asked') return true;
  return word === 'going' && step.status === 'awaiting_confirmation';
}

export function hear(context: PlanContext, event: Of<'command.moved'>): Decided {
  const work = workOn(context, event);
  const step = waitingFor(context, event.commandId) as PlanStep;
  if (step.undo === null) hearOfStep(work, step, event);
  else hearOfUndoing(work, step, step.undo.tries, event);
  return decided(work);
}

function hearOfStep(work: Work, step: PlanStep, event: Of<'command.moved'>): void {
  const { id } = step;
  const { status, verification } = event;
  const word = wordOf(status, verification);
  switch (word) {
    case 'waiting':
    case 'going': {
      // Nobody confirms anything under a suspension: what is confirmed begins after it.
      const parked = step.parked && step.status !== 'awaiting_confirmation';
      change(work, id, { ask: 'made', status: word === 'going' ? 'running' : 'awaiting_confirmation', parked });
      const now = work.context.steps.find((one) => one.id === id) as PlanStep;
      if (isTakenBack(work.context, now)) withdraw(work, now);
      return;
    }
    case 'succeeded':
      finish(work, step, { status: 'succeeded', acted: true });
      return;
    case 'failed':
      if (status === 'cancelled' && work.context.ending !== null) finish(work, step, { status: 'skipped' });
      else fail(work, step, errorOf(event), { acted: mayHaveActed(status), lost: isLost(step, event) });
  }
}

function finish(work: Work, { id }: PlanStep, changes: Partial<PlanStep>): void {
  const finished = work.context.finished + 1;
  put(work, { finished });
  change(work, id, { ...changes, ask: null, finished });
}

function fail(work: Work, step: PlanStep, error: StepError, { acted, lost }: { acted: boolean; lost: boolean }): void {
  finish(work, step, { status: 'failed', error, acted });
  const { ending, onFailure } = work.context;
  if (lost) end(work, 'stop');
  else if (ending === null) end(work, onFailure);
}

/** Contract §6: suspension parks, and its clocks run on. What ran out of time under it was lost to it. */
const isLost = ({ parked }: PlanStep, { status, verification }: Of<'command.moved'>): boolean =>
  parked && (status === 'expired' || status === 'timed_out' || verification === 'timed_out');

function hearOfUndoing(work: Work, step: PlanStep, tries: number, event: Of<'command.moved'>): void {
  const { id } = step;
  const word = wordOf(event.status, event.verification);
  if (word === 'succeeded') change(work, id, { status: 'compensated', ask: null, undoError: null });
  else if (word !== 'failed') change(work, id, { ask: 'made' });
  // What the suspension took from it is no try of its own.
  else if (isLost(step, event) && mayBeRepeated(event)) pause(work, step, tries - 1, errorOf(event));
  else if (mayBeRepeated(event)) pause(work, step, tries, errorOf(event));
  else giveUp(work, step, errorOf(event));
}

/** Never a critical one that its device may have got, and nothing that somebody said no to. */
const mayBeRepeated = ({ critical, status }: Of<'command.moved'>): boolean =>
  status !== 'cancelled' && !(critical && status !== 'rejected' && status !== 'expired');

function pause(work: Work, step: PlanStep, tries: number, error: StepError): void {
  const wait = COMPENSATION_RETRIES_MS[Math.max(0, tries - 1)];
  if (wait === undefined) {
    giveUp(work, step, error);
    return;
  }
  const { commandId } = step.undo as { commandId: Uuid };
  change(work, step.id, { ask: 'pausing', undo: { commandId, tries }, undoError: error });
  wake(work, wait);
}

/** What the step stood on stays as it is too: it would be pulled from under it. */
function giveUp(work: Work, step: PlanStep, error: StepError): void {
  change(work, step.id, { status: 'compensation_failed', ask: null, undoError: error });
  const below = ancestorsOf(work.context.steps, step);
  for (const one of work.context.steps.filter((other) => below.has(other.id) && isToUndo(other))) {
    const detail = `Left as it is, because '${step.id}', which depends on it, could not be undone.`;
    change(work, one.id, { status: 'compensation_failed', undoError: { code: 'NOT_COMPENSATED', detail } });
  }
}

export function ancestorsOf(steps: readonly PlanStep[], { dependsOn }: PlanStep): ReadonlySet<string> {
  const found = new Set<string>();
  const left = [...dependsOn];
  for (let id = left.pop(); id !== undefined; id = left.pop()) {
    if (found.has(id)) continue;
    found.add(id);
    left.push(...(steps.find((step) => step.id === id)?.dependsOn ?? []));
  }
  return found;
}

export function refused(context: PlanContext, event: Of<'step.refused'>): Decided {
  const work = workOn(context, event);
  const step = waitingFor(context, event.commandId) as PlanStep;
  if (step.undo !== null) pause(work, step, step.undo.tries, event.error);
  else {
    change(work, step.id, { commandId: null });
    if (context.ending !== null) finish(work, step, { status: 'skipped' });
    else fail(work, step, event.error, { acted: false, lost: false });
  }
  return decided(work);
}

export function hold(context: PlanContext, event: Of<'step.held'>): Decided {
  const work = workOn(context, event);
  const { id } = waitingFor(context, event.commandId) as PlanStep;
  change(work, id, { ask: 'held', parked: false });
  wake(work, event.forMs);
  return decided(work);
}

function wake(work: Work, afterMs: Milliseconds): void {
  put(work, { wakeAt: work.context.wakeAt ?? work.at + afterMs });
}

/** What was held back is asked for again, under the same id; a compensation that failed is a command of its own. */
export function askAgain(context: PlanContext, event: Moment): Decided {
  const work = workOn(context, event);
  put(work, { wakeAt: null });
  for (const step of work.context.steps) {
    const { id, ask, undo, commandId } = step;
    if (ask === 'pausing') tryToUndo(work, step, (undo?.tries ?? 0) + 1);
    else if (ask === 'held') {
      change(work, id, { ask: 'asked' });
      const asked = (undo?.commandId ?? commandId) as Uuid;
      work.outputs.push({ type: 'plan.ask', planId: context.id, stepId: id, commandId: asked });
    }
  }
  return decided(work);
}

export function park(context: PlanContext): Decided {
  const steps = context.steps.map((step) => (isUnderWay(step) ? { ...step, parked: true } : step));
  return { changes: { steps }, outputs: [] };
}

export const hasHeld = ({ steps }: PlanContext): boolean => steps.some(({ ask }) => ask === 'held');
export const hasUnderWay = ({ steps }: PlanContext): boolean => steps.some(isUnderWay);

function errorOf({ status, verification, refusal }: Of<'command.moved'>): StepError {
  if (refusal !== null) return refusal;
  switch (status) {
    case 'failed':
      return { code: 'FAILED', detail: 'The device says that it could not do it.' };
    case 'expired':
      return { code: 'EXPIRED', detail: 'It was not confirmed, or not written to its device, in time.' };
    case 'cancelled':
      return { code: 'CANCELLED', detail: 'It was cancelled, or somebody refused to confirm it.' };
    case 'timed_out':
      return { code: 'TIMED_OUT', detail: 'Its device got it and never said what became of it.' };
    default:
      return verification === 'mismatched'
        ? { code: 'STATE_MISMATCHED', detail: 'The device said that it did it, and reported another state.' }
        : { code: 'STATE_NOT_REPORTED', detail: 'The device said that it did it, and reported no state in time.' };
  }
}

/** Where a plan stands by its steps; `stopping` is a plan that is to fail, while something is still under way. */
export type Phase = PlanStatus | 'stopping';

export function phaseOf({ steps, ending }: PlanContext): Phase {
  switch (ending) {
    case null:
      if (steps.every(({ status }) => status === 'succeeded')) return 'succeeded';
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

export const stands = (context: PlanContext, _: object, { phase }: { phase: Phase }): boolean =>
  phaseOf(context) === phase;

export function become(context: PlanContext, { at }: Moment, { status }: { status: PlanStatus }): Decided {
  if (context.status === status && status !== 'pending') return { changes: null, outputs: [] };
  const { tenantId, id: planId } = context;
  const told: Output = { type: 'plan.changed', tenantId, planId, status, stepId: null, stepStatus: null, at };
  return { changes: { status }, outputs: [told] };
}

export const stamp = (_: PlanContext, { at }: Moment): Decided => ({ changes: { finishedAt: at }, outputs: [] });

export const hasWake = ({ wakeAt }: PlanContext): boolean => wakeAt !== null;
export const hasNoWake = ({ wakeAt }: PlanContext): boolean => wakeAt === null;
export const wakeLeft = ({ wakeAt }: PlanContext, { at }: Moment): Milliseconds =>
  Math.max(0, (wakeAt as EpochMs) - at);
