import type { PlanStatus, StepStatus } from '../../../src/domain/plan.ts';
import type { getPlan } from '../../../src/operations/plans/plan-view.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { counted } from '../ui/text-format.ts';
import type { Tone } from '../ui/tone.ts';

export type PlanRecord = ResponseBody<typeof getPlan>['plan'];
export type StepRecord = PlanRecord['steps'][number];

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
  name ?? (steps.length === 0 ? 'Plan' : `Plan with ${counted(steps.length, 'step')}`);

export type UndoState = 'none' | 'possible' | 'running' | 'done' | 'failed';

const undoStates: Readonly<Record<StepStatus, UndoState>> = {
  pending: 'possible',
  running: 'possible',
  awaiting_confirmation: 'possible',
  succeeded: 'possible',
  failed: 'possible',
  skipped: 'possible',
  compensating: 'running',
  compensated: 'done',
  compensation_failed: 'failed',
};

/** Progress of a step's rollback. */
export const undoStateOf = ({ compensation, status }: Pick<StepRecord, 'compensation' | 'status'>): UndoState =>
  compensation === undefined ? 'none' : undoStates[status];

/** Status of a plan, in one sentence. */
export function planSummary({ status, steps, finished_at, cognition }: PlanRecord): string {
  const count = (...wanted: StepStatus[]): number => steps.filter((step) => wanted.includes(step.status)).length;
  const done = count('succeeded', 'compensating', 'compensated', 'compensation_failed');
  if (steps.length === 0 && finished_at === null) return 'An agent is planning the steps.';
  switch (status) {
    case 'pending':
    case 'running':
      return `${done} of ${counted(steps.length, 'step')} completed.`;
    case 'awaiting_confirmation':
      return 'A critical step is waiting for confirmation. Independent steps continue.';
    case 'succeeded':
      return steps.length === 0 ? 'There was nothing to do.' : 'All steps succeeded.';
    case 'failed':
      if (steps.length === 0) return cognition?.error?.detail ?? 'The plan ended before it had steps.';
      return done > 0
        ? 'A step failed. No new steps were started; completed steps were kept.'
        : 'The plan failed before a step was completed.';
    case 'rolling_back':
      return `A step failed or the plan was cancelled. Completed steps are being rolled back in reverse order; ${count('compensated')} done.`;
    case 'rolled_back':
      return `A step failed. Rolled back: ${counted(count('compensated'), 'completed step')}.`;
    case 'rollback_failed':
      return 'A step failed and the rollback of another step failed too. Check the devices.';
    case 'cancelled':
      return count('compensated') > 0
        ? 'The plan was cancelled and completed steps were rolled back.'
        : 'The plan was cancelled.';
  }
}
