import type { ContextInput } from '../domain/cognition.ts';
import { mayHaveActed } from '../domain/command.ts';
import { COMPENSATION_RETRIES_MS, outcomeOf, type PlanStatus } from '../domain/plan.ts';
import type { Milliseconds, Uuid } from '../domain/values.ts';
import { changeLive, emitRefusal } from './decision.ts';
import type { Output } from './outputs.ts';
import type { PlanCognition, PlanContext, PlanStep, StepError } from './plan-types.ts';
import {
  beginUpdate,
  type Decided,
  endPlan,
  finishUpdate,
  isUnderWay,
  msUntil,
  mustWithdraw,
  needsCompensation,
  newStep,
  notifyPlanner,
  type PlanEventOf,
  type PlanPhase,
  type PlanUpdate,
  phaseOf,
  requestCompensation,
  type Timestamped,
  updateContext,
  updateStep,
  withdrawCommand,
  withoutNeedlessParams,
} from './plan-update.ts';

// Decisions of the plan machine, as pure functions. The chart is in plan.ts, decisions on the planner's events in
// plan-cognition.ts.

export function create({ live }: PlanContext, { at, plan }: PlanEventOf<'create'>): Decided {
  const { id, tenantId, name, onFailure, createdBy, scopes, requestId, cognition = null } = plan;
  const context: PlanContext = {
    fixed: { id, tenantId, name, onFailure, createdBy, scopes, requestId, createdAt: at },
    live: { ...live, steps: plan.steps.map(newStep), cognition: cognition && newCognition(cognition) },
  };
  const update = beginUpdate(context, { at });
  if (cognition === null) return finishUpdate(update);
  const { proposalId } = cognition;
  if (proposalId !== null) update.outputs.push({ type: 'proposal.accept', proposalId, planId: id });
  else notifyPlanner(update, { type: 'opened' });
  return finishUpdate(update);
}

const newCognition = (input: Pick<PlanCognition, keyof ContextInput | 'proposalId' | 'memories'>): PlanCognition => ({
  ...input,
  phase: input.proposalId === null ? 'thinking' : 'done',
  ...{ dueAt: null, armedFor: null, overdue: false, summary: null, finalState: null, error: null },
});

export function cancel(context: PlanContext, event: PlanEventOf<'cancel'>): Decided {
  const update = beginUpdate(context, event);
  endPlan(update, 'cancel', 'The plan was cancelled.');
  return finishUpdate(update);
}

export const refuseCancel = ({ live: { status } }: PlanContext): Decided =>
  emitRefusal('ILLEGAL_TRANSITION', `The plan is ${status} and cannot be cancelled.`);

/** The step that awaits this command. */
const stepAwaiting = ({ live: { steps } }: PlanContext, commandId: Uuid): PlanStep | undefined =>
  steps.find((step) => isUnderWay(step) && (step.undo ?? step).commandId === commandId);

export const isStepRequested = (
  context: PlanContext,
  { commandId }: PlanEventOf<'step.refused' | 'step.held'>,
): boolean => stepAwaiting(context, commandId)?.ask === 'asked';

/** Whether the message changes a step. Messages may be repeated, late or out of order; known changes are ignored. */
export function changesStep(
  context: PlanContext,
  { commandId, status, verification }: PlanEventOf<'command.moved'>,
): boolean {
  const step = stepAwaiting(context, commandId);
  if (step === undefined) return false;
  const outcome = outcomeOf(status, verification);
  if (outcome === 'succeeded' || outcome === 'failed' || step.ask === 'asked') return true;
  return outcome === 'in_progress' && step.status === 'awaiting_confirmation';
}

export function applyCommandChange(context: PlanContext, event: PlanEventOf<'command.moved'>): Decided {
  const update = beginUpdate(context, event);
  const step = stepAwaiting(context, event.commandId) as PlanStep;
  notifyPlannerOfOutcome(update, step, event);
  if (step.undo === null) applyToStep(update, step, event);
  else applyToCompensation(update, step, step.undo.tries, event);
  return finishUpdate(update);
}

/** Notifies the planner if the step's command is final. */
function notifyPlannerOfOutcome(
  update: PlanUpdate,
  { id: nodeId, deviceId, undo }: PlanStep,
  event: PlanEventOf<'command.moved'>,
): void {
  const { commandId, status, verification } = event;
  const outcome = outcomeOf(status, verification);
  if (outcome !== 'succeeded' && outcome !== 'failed') return;
  const success = outcome === 'succeeded';
  notifyPlanner(update, {
    ...{ type: 'outcome', nodeId, deviceId, commandId, status, verification, success },
    ...{ compensation: undo !== null, code: success ? null : errorOf(event).code },
  });
}

function applyToStep(update: PlanUpdate, step: PlanStep, event: PlanEventOf<'command.moved'>): void {
  const { id } = step;
  const { status, verification } = event;
  const outcome = outcomeOf(status, verification);
  switch (outcome) {
    case 'waiting':
    case 'in_progress': {
      // Commands cannot be confirmed during a suspension, so a confirmed command starts after it.
      const parked = step.parked && step.status !== 'awaiting_confirmation';
      updateStep(update, id, {
        ask: 'made',
        status: outcome === 'in_progress' ? 'running' : 'awaiting_confirmation',
        parked,
      });
      const now = update.context.live.steps.find((one) => one.id === id) as PlanStep;
      if (mustWithdraw(update.context, now)) withdrawCommand(update, now);
      return;
    }
    case 'succeeded':
      finish(update, step, { status: 'succeeded', acted: true });
      return;
    case 'failed':
      if (status === 'cancelled' && update.context.live.ending !== null) finish(update, step, { status: 'skipped' });
      else
        failStep(update, step, errorOf(event), { acted: mayHaveActed(status), lost: isLostToSuspension(step, event) });
      return;
    default:
      outcome satisfies never;
  }
}

function finish(update: PlanUpdate, { id }: PlanStep, changes: Partial<PlanStep>): void {
  const finished = update.context.live.finished + 1;
  updateContext(update, { finished });
  updateStep(update, id, { ...changes, ask: null, finished });
}

function failStep(
  update: PlanUpdate,
  step: PlanStep,
  error: StepError,
  { acted, lost }: { acted: boolean; lost: boolean },
): void {
  finish(update, step, { status: 'failed', error, acted });
  const { onFailure } = update.context.fixed;
  const { ending } = update.context.live;
  const detail = `'${step.id}' failed: ${error.detail}`;
  if (lost) endPlan(update, 'stop', detail);
  else if (ending === null) endPlan(update, onFailure, detail);
}

/** Contract §6: the deadlines of steps continue during a suspension. A step that expired in it was lost to it. */
const isLostToSuspension = ({ parked }: PlanStep, { status, verification }: PlanEventOf<'command.moved'>): boolean =>
  parked && (status === 'expired' || status === 'timed_out' || verification === 'timed_out');

function applyToCompensation(
  update: PlanUpdate,
  step: PlanStep,
  tries: number,
  event: PlanEventOf<'command.moved'>,
): void {
  const { id } = step;
  const outcome = outcomeOf(event.status, event.verification);
  if (outcome === 'succeeded') updateStep(update, id, { status: 'compensated', ask: null, undoError: null });
  else if (outcome !== 'failed') updateStep(update, id, { ask: 'made' });
  // An attempt that was lost to the suspension does not count.
  else if (isLostToSuspension(step, event) && isRetryable(event))
    scheduleCompensationRetry(update, step, tries - 1, errorOf(event));
  else if (isRetryable(event)) scheduleCompensationRetry(update, step, tries, errorOf(event));
  else giveUpCompensation(update, step, errorOf(event));
}

/**
 * Whether a compensation may be retried: not if a user refused it, nor if it is critical and its device may have
 * received it.
 */
const isRetryable = ({ critical, status }: PlanEventOf<'command.moved'>): boolean =>
  status !== 'cancelled' && !(critical && status !== 'rejected' && status !== 'expired');

function scheduleCompensationRetry(update: PlanUpdate, step: PlanStep, tries: number, error: StepError): void {
  const wait = COMPENSATION_RETRIES_MS[Math.max(0, tries - 1)];
  if (wait === undefined) {
    giveUpCompensation(update, step, error);
    return;
  }
  const { commandId } = step.undo as { commandId: Uuid };
  updateStep(update, step.id, { ask: 'pausing', undo: { commandId, tries }, undoError: error });
  wake(update, wait);
}

/** Also gives up the steps that this one depends on: undoing them would break the step that stays. */
function giveUpCompensation(update: PlanUpdate, step: PlanStep, error: StepError): void {
  updateStep(update, step.id, { status: 'compensation_failed', ask: null, undoError: error });
  const below = ancestorsOf(update.context.live.steps, step);
  for (const one of update.context.live.steps.filter((other) => below.has(other.id) && needsCompensation(other))) {
    const detail = `Not compensated, because the dependent step '${step.id}' could not be compensated.`;
    updateStep(update, one.id, { status: 'compensation_failed', undoError: { code: 'NOT_COMPENSATED', detail } });
  }
}

export function ancestorsOf(steps: readonly PlanStep[], { dependsOn }: PlanStep): ReadonlySet<string> {
  const found = new Set<string>();
  const pending = [...dependsOn];
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    if (found.has(id)) continue;
    found.add(id);
    pending.push(...(steps.find((step) => step.id === id)?.dependsOn ?? []));
  }
  return found;
}

export function applyStepRefusal(context: PlanContext, event: PlanEventOf<'step.refused'>): Decided {
  const update = beginUpdate(context, event);
  const step = stepAwaiting(context, event.commandId) as PlanStep;
  if (step.undo !== null) scheduleCompensationRetry(update, step, step.undo.tries, event.error);
  else {
    updateStep(update, step.id, { commandId: null });
    if (context.live.ending !== null) finish(update, step, { status: 'skipped' });
    else failStep(update, step, event.error, { acted: false, lost: false });
  }
  return finishUpdate(update);
}

export function holdStep(context: PlanContext, event: PlanEventOf<'step.held'>): Decided {
  const update = beginUpdate(context, event);
  const { id } = stepAwaiting(context, event.commandId) as PlanStep;
  updateStep(update, id, { ask: 'held', parked: false });
  wake(update, event.forMs);
  return finishUpdate(update);
}

function wake(update: PlanUpdate, afterMs: Milliseconds): void {
  updateContext(update, { wakeAt: update.context.live.wakeAt ?? update.at + afterMs });
}

/** Requests deferred commands again under the same id; a retried compensation is a new command. */
export function retryHeldSteps(context: PlanContext, event: Timestamped): Decided {
  const update = beginUpdate(context, event);
  updateContext(update, { wakeAt: null });
  for (const step of update.context.live.steps) {
    const { id, ask, undo, commandId } = step;
    if (ask === 'pausing') requestCompensation(update, step, (undo?.tries ?? 0) + 1);
    else if (ask === 'held') {
      updateStep(update, id, { ask: 'asked' });
      const requested = (undo?.commandId ?? commandId) as Uuid;
      update.outputs.push({ type: 'plan.ask', planId: context.fixed.id, stepId: id, commandId: requested });
    }
  }
  return finishUpdate(update);
}

export function markSuspended(context: PlanContext): Decided {
  const steps = context.live.steps.map((step) => (isUnderWay(step) ? { ...step, parked: true } : step));
  return { changes: changeLive(context, { steps }), outputs: [] };
}

export const hasHeldSteps = ({ live: { steps } }: PlanContext): boolean => steps.some(({ ask }) => ask === 'held');
export const hasStepsUnderWay = ({ live: { steps } }: PlanContext): boolean => steps.some(isUnderWay);

function errorOf({ status, verification, refusal, deviceError }: PlanEventOf<'command.moved'>): StepError {
  if (refusal !== null) return refusal;
  switch (status) {
    case 'failed':
      return {
        code: 'FAILED',
        detail: `The device reported a failure${deviceError === undefined ? '.' : `: ${deviceError}`}`,
      };
    case 'expired':
      return { code: 'EXPIRED', detail: 'The command was not confirmed, or not sent to its device, in time.' };
    case 'cancelled':
      return { code: 'CANCELLED', detail: 'The command was cancelled, or its confirmation was refused.' };
    case 'timed_out':
      return { code: 'TIMED_OUT', detail: 'The device did not report an outcome in time.' };
    case 'submitted':
    case 'rejected':
    case 'awaiting_confirmation':
    case 'dispatched':
    case 'acknowledged':
    case 'in_progress':
    case 'succeeded':
      return verification === 'mismatched'
        ? { code: 'STATE_MISMATCHED', detail: 'The device reported success, but another state than expected.' }
        : { code: 'STATE_NOT_REPORTED', detail: 'The device reported success, but no state in time.' };
  }
}

export const phaseIs = (context: PlanContext, _: object, { phase }: { phase: PlanPhase }): boolean =>
  phaseOf(context) === phase;

export function setStatus(context: PlanContext, { at }: Timestamped, { status }: { status: PlanStatus }): Decided {
  if (context.live.status === status && status !== 'pending') return { changes: null, outputs: [] };
  const { tenantId, id: planId } = context.fixed;
  const changed: Output = { type: 'plan.changed', tenantId, planId, status, stepId: null, stepStatus: null, at };
  return { changes: changeLive(context, { status }), outputs: [changed] };
}

/** Entered with the final status: no command of the plan is sent after it. */
export const setFinishedAt = (context: PlanContext, { at }: Timestamped): Decided => ({
  changes: changeLive(context, {
    finishedAt: at,
    steps: context.live.steps.map((step) => withoutNeedlessParams(step, true)),
  }),
  outputs: [],
});

export const hasWake = ({ live: { wakeAt } }: PlanContext): boolean => wakeAt !== null;
export const hasNoWake = ({ live: { wakeAt } }: PlanContext): boolean => wakeAt === null;
export const msUntilWake = ({ live: { wakeAt } }: PlanContext, event: Timestamped): Milliseconds =>
  msUntil(wakeAt, event);
