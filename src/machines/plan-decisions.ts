import type { ContextWish } from '../domain/cognition.ts';
import { COMPENSATION_RETRIES_MS, mayHaveActed, type PlanStatus, wordOf } from '../domain/plan.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import { refusing } from './decision.ts';
import type { Output } from './outputs.ts';
import type { PlanCognition, PlanContext, PlanStep, StepError } from './plan-types.ts';
import {
  change,
  type Decided,
  decided,
  end,
  isTakenBack,
  isToUndo,
  isUnderWay,
  left,
  type Moment,
  type Of,
  type Phase,
  phaseOf,
  put,
  stepOf,
  tellThinker,
  tryToUndo,
  type Work,
  withdraw,
  workOn,
} from './plan-work.ts';

// What the plan's chart decides, as pure functions; where it goes with that is in plan.ts, and what is said by whoever thinks
// about it in plan-thinking.ts.

export function create(_: PlanContext, { at, plan }: Of<'create'>): Decided {
  const { id, tenantId, name, onFailure, createdBy, scopes, requestId, cognition = null } = plan;
  const context: PlanContext = {
    ...{ id, tenantId, name, onFailure, createdBy, scopes, requestId, createdAt: at, finishedAt: null },
    ...{ status: 'pending', steps: plan.steps.map(stepOf), ending: null, finished: 0, wakeAt: null },
    cognition: cognition && thoughtOf(cognition),
  };
  const work = workOn(context, { at });
  if (cognition === null) return decided(work);
  const { proposalId } = cognition;
  if (proposalId !== null) work.outputs.push({ type: 'proposal.accept', proposalId, planId: id });
  else tellThinker(work, { type: 'opened' });
  return decided(work);
}

const thoughtOf = (wish: Pick<PlanCognition, keyof ContextWish | 'proposalId'>): PlanCognition => ({
  ...wish,
  phase: wish.proposalId === null ? 'thinking' : 'done',
  ...{ dueAt: null, armedFor: null, overdue: false, summary: null, finalState: null, error: null },
});

export function cancel(context: PlanContext, event: Of<'cancel'>): Decided {
  const work = workOn(context, event);
  end(work, 'cancel', 'Somebody cancelled the plan.');
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
  tellOutcome(work, step, event);
  if (step.undo === null) hearOfStep(work, step, event);
  else hearOfUndoing(work, step, step.undo.tries, event);
  return decided(work);
}

/** For whoever thought of the step, where its command is over. */
function tellOutcome(work: Work, { id: nodeId, deviceId, undo }: PlanStep, event: Of<'command.moved'>): void {
  const { commandId, status, verification } = event;
  const word = wordOf(status, verification);
  if (word !== 'succeeded' && word !== 'failed') return;
  const success = word === 'succeeded';
  tellThinker(work, {
    ...{ type: 'outcome', nodeId, deviceId, commandId, status, verification, success },
    ...{ compensation: undo !== null, code: success ? null : errorOf(event).code },
  });
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
  const why = `'${step.id}' failed: ${error.detail}`;
  if (lost) end(work, 'stop', why);
  else if (ending === null) end(work, onFailure, why);
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
export const wakeLeft = ({ wakeAt }: PlanContext, event: Moment): Milliseconds => left(wakeAt, event);
