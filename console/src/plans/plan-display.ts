import type { PlanStatus, StepStatus } from '../../../src/domain/plan.ts';
import type { getPlan } from '../../../src/operations/plans/plan-view.ts';
import type { Answer } from '../api/answer-types.ts';
import type { Tone } from '../ui/tone.ts';

export type PlanRecord = Answer<typeof getPlan>['plan'];
export type Step = PlanRecord['steps'][number];

export const toneOfPlan: Readonly<Record<PlanStatus, Tone>> = {
  pending: 'info',
  running: 'info',
  awaiting_confirmation: 'warn',
  succeeded: 'good',
  failed: 'bad',
  rolling_back: 'warn',
  rolled_back: 'warn',
  rollback_failed: 'bad',
  cancelled: 'quiet',
};

export const toneOfStep: Readonly<Record<StepStatus, Tone>> = {
  pending: 'quiet',
  running: 'info',
  awaiting_confirmation: 'warn',
  succeeded: 'good',
  failed: 'bad',
  skipped: 'quiet',
  compensating: 'warn',
  compensated: 'warn',
  compensation_failed: 'bad',
};

export const isFinished = ({ finished_at }: Pick<PlanRecord, 'finished_at'>): boolean => finished_at !== null;

export const planHref = (id: string): string => `/plans/${id}`;

export const planTitle = ({ name, steps }: PlanRecord): string =>
  name ??
  (steps.length === 0 ? 'A plan' : steps.length === 1 ? 'A plan of one step' : `A plan of ${steps.length} steps`);

const undoStatuses: readonly StepStatus[] = ['compensating', 'compensated', 'compensation_failed'];

export type UndoState = 'none' | 'possible' | 'running' | 'done' | 'failed';

/** How far the undoing of a step is. */
export function undoStateOf({ compensation, status }: Pick<Step, 'compensation' | 'status'>): UndoState {
  if (compensation === undefined) return 'none';
  if (!undoStatuses.includes(status)) return 'possible';
  return status === 'compensating' ? 'running' : status === 'compensated' ? 'done' : 'failed';
}

/** Where a plan stands, in a sentence. */
export function planSummary({ status, steps, on_failure, finished_at }: PlanRecord): string {
  const count = (...wanted: StepStatus[]): number => steps.filter((step) => wanted.includes(step.status)).length;
  const done = count('succeeded', 'compensating', 'compensated', 'compensation_failed');
  if (steps.length === 0 && finished_at === null) return 'An agent thinks about its steps.';
  switch (status) {
    case 'pending':
    case 'running':
      return `${done} of ${steps.length} steps are done.`;
    case 'awaiting_confirmation':
      return 'A critical step waits for a confirmation; what does not depend on it goes on.';
    case 'succeeded':
      return steps.length === 0 ? 'There was nothing to do.' : 'Every step succeeded.';
    case 'failed':
      return on_failure === 'stop'
        ? 'A step failed. Nothing new was started, and what was done stays.'
        : 'It could not go on.';
    case 'rolling_back':
      return `A step failed, or it was cancelled: what was done is undone, the last first. ${count('compensated')} undone so far.`;
    case 'rolled_back':
      return `A step failed. What was done is undone: ${count('compensated') === 1 ? 'one step' : `${count('compensated')} steps`}.`;
    case 'rollback_failed':
      return 'A step failed, and so did the undoing of another: look at the devices yourself.';
    case 'cancelled':
      return count('compensated') > 0 ? 'It was cancelled, and what was done is undone.' : 'It was cancelled.';
  }
}
