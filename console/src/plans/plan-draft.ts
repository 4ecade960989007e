import type { z } from 'zod';
import type { createPlan } from '../../../src/operations/plans/plans.ts';
import type { ChosenAction } from '../commands/action-fields.tsx';

// A plan while it is written in the form.

export interface DraftStep {
  /** Identifies the step while steps are added and removed. */
  key: number;
  /** Empty until one is chosen. */
  deviceId: string;
  action: ChosenAction | null;
  /** Keys of earlier steps that must have succeeded. */
  after: readonly number[];
  /** The compensation, if any. */
  undo: ChosenAction | null;
}

export type PlanRequest = z.input<(typeof createPlan)['input']>;

/** The next step starts after the last one. */
export function withNewStep(steps: readonly DraftStep[]): DraftStep[] {
  const last = steps.at(-1);
  const key = Math.max(0, ...steps.map((step) => step.key)) + 1;
  return [...steps, { key, deviceId: '', action: null, after: last === undefined ? [] : [last.key], undo: null }];
}

/** Later steps no longer wait for the removed one. */
export const withoutStep = (steps: readonly DraftStep[], removed: number): DraftStep[] =>
  steps
    .filter(({ key }) => key !== removed)
    .map((step) => ({ ...step, after: step.after.filter((key) => key !== removed) }));

/** IDs in the request, by position: `step-1`. */
export const stepIdOf = (index: number): string => `step-${index + 1}`;

/** Steps without an action are omitted: the form does not send them. */
export const planStepsOf = (steps: readonly DraftStep[]): PlanRequest['steps'] =>
  steps.flatMap(({ deviceId, action, after, undo }, index) =>
    action === null
      ? []
      : [
          {
            id: stepIdOf(index),
            device_id: deviceId,
            action: action.action,
            params: action.params,
            depends_on: after.map((key) => stepIdOf(steps.findIndex((step) => step.key === key))),
            ...(undo !== null && { compensation: { action: undo.action, params: undo.params } }),
          },
        ],
  );
