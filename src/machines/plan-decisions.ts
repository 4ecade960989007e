import type { ContextInput } from '../domain/cognition.ts';
import { COMPENSATION_RETRIES_MS, mayHaveActed, outcomeOf, type PlanStatus } from '../domain/plan.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import { emitRefusal } from './decision.ts';
import type { Output } from './outputs.ts';
import type { PlanCognition, PlanContext, PlanStep, StepError } from './plan-types.ts';
import {
  beginUpdate,
  type Decided,
  type EventOf,
  endPlan,
  finishUpdate,
  isUnderWay,
  type Moment,
  msUntil,
  mustWithdraw,
  needsCompensation,
  newStep,
  notifyPlanner,
  type PlanPhase,
  type PlanUpdate,
  phaseOf,
  requestCompensation,
  updateContext,
  updateStep,
  withdrawCommand,
} from './plan-update.ts';

// What the plan's chart decides, as pure functions; where it goes with that is in plan.ts, and what is said by whoever thinks
// about it in plan-thinking.ts.

export function create(_: PlanContext, { at, plan }: EventOf<'create'>): Decided {
  const { id, tenantId, name, onFailure, createdBy, scopes, requestId, cognition = null } = plan;
  const context: PlanContext = {
    ...{ id, tenantId, name, onFailure, createdBy, scopes, requestId, createdAt: at, finishedAt: null },
    ...{ status: 'pending', steps: plan.steps.map(newStep), ending: null, finished: 0, wakeAt: null },
    cognition: cognition && newCognition(cognition),
  };
  const work = beginUpdate(context, { at });
  if (cognition === null) return finishUpdate(work);
  const { proposalId } = cognition;
  if (proposalId !== null) work.outputs.push({ type: 'proposal.accept', proposalId, planId: id });
  else notifyPlanner(work, { type: 'opened' });
  return finishUpdate(work);
}

const newCognition = (wish: Pick<PlanCognition, keyof ContextInput | 'proposalId'>): PlanCognition => ({
  ...wish,
  phase: wish.proposalId === null ? 'thinking' : 'done',
  ...{ dueAt: null, armedFor: null, overdue: false, summary: null, finalState: null, error: null },
});

export function cancel(context: PlanContext, event: EventOf<'cancel'>): Decided {
  const work = beginUpdate(context, event);
  endPlan(work, 'cancel', 'Somebody cancelled the plan.');
  return finishUpdate(work);
}

export const refuseCancel = ({ status }: PlanContext): Decided =>
  emitRefusal('ILLEGAL_TRANSITION', `The plan is ${status} and cannot be cancelled.`);

/** The step that waits for this command. */
const stepAwaiting = ({ steps }: PlanContext, commandId: Uuid): PlanStep | undefined =>
  steps.find((step) => isUnderWay(step) && (step.undo ?? step).commandId === commandId);

export const isStepRequested = (context: PlanContext, { commandId }: EventOf<'step.refused' | 'step.held'>): boolean =>
  stepAwaiting(context, commandId)?.ask === 'asked';

/** A command may tell twice, late, or in another order: what is known already is no news. */
export function changesStep(
  context: PlanContext,
  { commandId, status, verification }: EventOf<'command.moved'>,
): boolean {
  const step = stepAwaiting(context, commandId);
  if (step === undefined) return false;
  const word = outcomeOf(status, verification);
  if (word === 'succeeded' || word === 'failed' || step.ask === 'asked') return true;
  return word === 'going' && step.status === 'awaiting_confirmation';
}

export function applyCommandChange(context: PlanContext, event: EventOf<'command.moved'>): Decided {
  const work = beginUpdate(context, event);
  const step = stepAwaiting(context, event.commandId) as PlanStep;
  notifyPlannerOfOutcome(work, step, event);
  if (step.undo === null) applyToStep(work, step, event);
  else applyToCompensation(work, step, step.undo.tries, event);
  return finishUpdate(work);
}

/** For whoever thought of the step, where its command is over. */
function notifyPlannerOfOutcome(
  work: PlanUpdate,
  { id: nodeId, deviceId, undo }: PlanStep,
  event: EventOf<'command.moved'>,
): void {
  const { commandId, status, verification } = event;
  const word = outcomeOf(status, verification);
  if (word !== 'succeeded' && word !== 'failed') return;
  const success = word === 'succeeded';
  notifyPlanner(work, {
    ...{ type: 'outcome', nodeId, deviceId, commandId, status, verification, success },
    ...{ compensation: undo !== null, code: success ? null : errorOf(event).code },
  });
}

function applyToStep(work: PlanUpdate, step: PlanStep, event: EventOf<'command.moved'>): void {
  const { id } = step;
  const { status, verification } = event;
  const word = outcomeOf(status, verification);
  switch (word) {
    case 'waiting':
    case 'going': {
      // Nobody confirms anything under a suspension: what is confirmed begins after it.
      const parked = step.parked && step.status !== 'awaiting_confirmation';
      updateStep(work, id, { ask: 'made', status: word === 'going' ? 'running' : 'awaiting_confirmation', parked });
      const now = work.context.steps.find((one) => one.id === id) as PlanStep;
      if (mustWithdraw(work.context, now)) withdrawCommand(work, now);
      return;
    }
    case 'succeeded':
      finish(work, step, { status: 'succeeded', acted: true });
      return;
    case 'failed':
      if (status === 'cancelled' && work.context.ending !== null) finish(work, step, { status: 'skipped' });
      else failStep(work, step, errorOf(event), { acted: mayHaveActed(status), lost: isLostToSuspension(step, event) });
  }
}

function finish(work: PlanUpdate, { id }: PlanStep, changes: Partial<PlanStep>): void {
  const finished = work.context.finished + 1;
  updateContext(work, { finished });
  updateStep(work, id, { ...changes, ask: null, finished });
}

function failStep(
  work: PlanUpdate,
  step: PlanStep,
  error: StepError,
  { acted, lost }: { acted: boolean; lost: boolean },
): void {
  finish(work, step, { status: 'failed', error, acted });
  const { ending, onFailure } = work.context;
  const why = `'${step.id}' failed: ${error.detail}`;
  if (lost) endPlan(work, 'stop', why);
  else if (ending === null) endPlan(work, onFailure, why);
}

/** Contract §6: suspension parks, and its clocks run on. What ran out of time under it was lost to it. */
const isLostToSuspension = ({ parked }: PlanStep, { status, verification }: EventOf<'command.moved'>): boolean =>
  parked && (status === 'expired' || status === 'timed_out' || verification === 'timed_out');

function applyToCompensation(work: PlanUpdate, step: PlanStep, tries: number, event: EventOf<'command.moved'>): void {
  const { id } = step;
  const word = outcomeOf(event.status, event.verification);
  if (word === 'succeeded') updateStep(work, id, { status: 'compensated', ask: null, undoError: null });
  else if (word !== 'failed') updateStep(work, id, { ask: 'made' });
  // What the suspension took from it is no try of its own.
  else if (isLostToSuspension(step, event) && isRetryable(event))
    scheduleCompensationRetry(work, step, tries - 1, errorOf(event));
  else if (isRetryable(event)) scheduleCompensationRetry(work, step, tries, errorOf(event));
  else giveUpCompensation(work, step, errorOf(event));
}

/** Never a critical one that its device may have got, and nothing that somebody said no to. */
const isRetryable = ({ critical, status }: EventOf<'command.moved'>): boolean =>
  status !== 'cancelled' && !(critical && status !== 'rejected' && status !== 'expired');

function scheduleCompensationRetry(work: PlanUpdate, step: PlanStep, tries: number, error: StepError): void {
  const wait = COMPENSATION_RETRIES_MS[Math.max(0, tries - 1)];
  if (wait === undefined) {
    giveUpCompensation(work, step, error);
    return;
  }
  const { commandId } = step.undo as { commandId: Uuid };
  updateStep(work, step.id, { ask: 'pausing', undo: { commandId, tries }, undoError: error });
  wake(work, wait);
}

/** What the step stood on stays as it is too: it would be pulled from under it. */
function giveUpCompensation(work: PlanUpdate, step: PlanStep, error: StepError): void {
  updateStep(work, step.id, { status: 'compensation_failed', ask: null, undoError: error });
  const below = ancestorsOf(work.context.steps, step);
  for (const one of work.context.steps.filter((other) => below.has(other.id) && needsCompensation(other))) {
    const detail = `Left as it is, because '${step.id}', which depends on it, could not be undone.`;
    updateStep(work, one.id, { status: 'compensation_failed', undoError: { code: 'NOT_COMPENSATED', detail } });
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

export function applyStepRefusal(context: PlanContext, event: EventOf<'step.refused'>): Decided {
  const work = beginUpdate(context, event);
  const step = stepAwaiting(context, event.commandId) as PlanStep;
  if (step.undo !== null) scheduleCompensationRetry(work, step, step.undo.tries, event.error);
  else {
    updateStep(work, step.id, { commandId: null });
    if (context.ending !== null) finish(work, step, { status: 'skipped' });
    else failStep(work, step, event.error, { acted: false, lost: false });
  }
  return finishUpdate(work);
}

export function holdStep(context: PlanContext, event: EventOf<'step.held'>): Decided {
  const work = beginUpdate(context, event);
  const { id } = stepAwaiting(context, event.commandId) as PlanStep;
  updateStep(work, id, { ask: 'held', parked: false });
  wake(work, event.forMs);
  return finishUpdate(work);
}

function wake(work: PlanUpdate, afterMs: Milliseconds): void {
  updateContext(work, { wakeAt: work.context.wakeAt ?? work.at + afterMs });
}

/** What was held back is asked for again, under the same id; a compensation that failed is a command of its own. */
export function retryHeldSteps(context: PlanContext, event: Moment): Decided {
  const work = beginUpdate(context, event);
  updateContext(work, { wakeAt: null });
  for (const step of work.context.steps) {
    const { id, ask, undo, commandId } = step;
    if (ask === 'pausing') requestCompensation(work, step, (undo?.tries ?? 0) + 1);
    else if (ask === 'held') {
      updateStep(work, id, { ask: 'asked' });
      const asked = (undo?.commandId ?? commandId) as Uuid;
      work.outputs.push({ type: 'plan.ask', planId: context.id, stepId: id, commandId: asked });
    }
  }
  return finishUpdate(work);
}

export function park(context: PlanContext): Decided {
  const steps = context.steps.map((step) => (isUnderWay(step) ? { ...step, parked: true } : step));
  return { changes: { steps }, outputs: [] };
}

export const hasHeldSteps = ({ steps }: PlanContext): boolean => steps.some(({ ask }) => ask === 'held');
export const hasStepsUnderWay = ({ steps }: PlanContext): boolean => steps.some(isUnderWay);

function errorOf({ status, verification, refusal }: EventOf<'command.moved'>): StepError {
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

export const phaseIs = (context: PlanContext, _: object, { phase }: { phase: PlanPhase }): boolean =>
  phaseOf(context) === phase;

export function setStatus(context: PlanContext, { at }: Moment, { status }: { status: PlanStatus }): Decided {
  if (context.status === status && status !== 'pending') return { changes: null, outputs: [] };
  const { tenantId, id: planId } = context;
  const told: Output = { type: 'plan.changed', tenantId, planId, status, stepId: null, stepStatus: null, at };
  return { changes: { status }, outputs: [told] };
}

export const setFinishedAt = (_: PlanContext, { at }: Moment): Decided => ({
  changes: { finishedAt: at },
  outputs: [],
});

export const hasWake = ({ wakeAt }: PlanContext): boolean => wakeAt !== null;
export const hasNoWake = ({ wakeAt }: PlanContext): boolean => wakeAt === null;
export const msUntilWake = ({ wakeAt }: PlanContext, event: Moment): Milliseconds => msUntil(wakeAt, event);
