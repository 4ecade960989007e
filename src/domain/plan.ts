import { type CommandStatus, commandPhaseOf, type VerificationStatus } from './command.ts';
import type { FieldError } from './refusals.ts';
import type { JsonObject, Milliseconds } from './values.ts';

// The structure of a plan: a directed acyclic graph of steps (contract §6). Its execution is in `machines/plan.ts`.

export const planStatuses = [
  'pending',
  'running',
  'awaiting_confirmation',
  'succeeded',
  'failed',
  'rolling_back',
  'rolled_back',
  'rollback_failed',
  'cancelled',
] as const;
export type PlanStatus = (typeof planStatuses)[number];

const isFinalPlan: Readonly<Record<PlanStatus, boolean>> = {
  pending: false,
  running: false,
  awaiting_confirmation: false,
  succeeded: true,
  failed: true,
  rolling_back: false,
  rolled_back: true,
  rollback_failed: true,
  cancelled: true,
};

export const isFinalPlanStatus = (status: PlanStatus): boolean => isFinalPlan[status];

export const stepStatuses = [
  'pending',
  'running',
  'awaiting_confirmation',
  'succeeded',
  'failed',
  'skipped',
  'compensating',
  'compensated',
  'compensation_failed',
] as const;
export type StepStatus = (typeof stepStatuses)[number];

/** Groups of step statuses. `active`: the step's command or its compensation is under way. */
export type StepPhase = 'pending' | 'active' | 'confirming' | 'final';

const stepPhases: Readonly<Record<StepStatus, StepPhase>> = {
  pending: 'pending',
  running: 'active',
  awaiting_confirmation: 'confirming',
  succeeded: 'final',
  failed: 'final',
  skipped: 'final',
  compensating: 'active',
  compensated: 'final',
  compensation_failed: 'final',
};

export const stepPhaseOf = (status: StepStatus): StepPhase => stepPhases[status];

/** Reaction to a failed step. */
export const failurePolicies = ['rollback', 'stop'] as const;
export type OnFailure = (typeof failurePolicies)[number];

export const MAX_STEPS = 100;
/** Delays before the retries of a failed compensation; after the last one it is given up. */
export const COMPENSATION_RETRIES_MS: readonly Milliseconds[] = [1_000, 5_000, 25_000];

/** The command that undoes a step, on the same device. */
export interface Compensation {
  action: string;
  params: JsonObject;
}

interface Node {
  id: string;
  depends_on: readonly string[];
}

/** Errors of the graph; a cycle is reported with its steps. */
export function graphErrors(steps: readonly Node[]): FieldError[] {
  const places = new Map<string, number>();
  const errors: FieldError[] = [];
  steps.forEach(({ id }, place) => {
    if (places.has(id)) errors.push({ path: `steps.${place}.id`, message: 'duplicates the id of an earlier step' });
    else places.set(id, place);
  });
  steps.forEach(({ depends_on }, place) => {
    const unknown = depends_on.find((id) => !places.has(id));
    if (unknown === undefined) return;
    const message = `${JSON.stringify(unknown)} is not a step of this plan`;
    errors.push({ path: `steps.${place}.depends_on`, message });
  });
  if (errors.length > 0) return errors;
  const cycle = cycleIn(steps);
  if (cycle === null) return [];
  const path = `steps.${places.get(cycle[0] as string)}.depends_on`;
  return [{ path, message: `forms a cycle: ${cycle.join(' → ')}` }];
}

/** The steps of a cycle, each depending on the next, with the first repeated at the end; null without a cycle. */
function cycleIn(steps: readonly Node[]): string[] | null {
  const remaining = new Map(steps.map(({ id, depends_on }) => [id, new Set(depends_on)]));
  // Kahn's algorithm: removes steps without remaining dependencies. The rest are on a cycle or depend on one.
  for (let removed = true; removed; ) {
    removed = false;
    for (const [id, needed] of remaining) {
      if ([...needed].some((other) => remaining.has(other))) continue;
      remaining.delete(id);
      removed = true;
    }
  }
  const [start] = remaining.keys();
  if (start === undefined) return null;
  const path: string[] = [];
  for (let at = start; ; ) {
    const seen = path.indexOf(at);
    if (seen >= 0) return [...path.slice(seen), at];
    path.push(at);
    at = [...(remaining.get(at) ?? [])].find((other) => remaining.has(other)) as string;
  }
}

/** The outcome of a plan's step, derived from its command. */
export type StepOutcome = 'waiting' | 'in_progress' | 'succeeded' | 'failed';

/**
 * A step is final when its command is final and its verification is decided. A command that timed out is final at once,
 * regardless of late acks.
 */
export function outcomeOf(status: CommandStatus, verification: VerificationStatus): StepOutcome {
  switch (commandPhaseOf(status)) {
    case 'deciding':
    case 'executing':
      return 'in_progress';
    case 'confirming':
      return 'waiting';
    case 'succeeded':
      return outcomeOfVerification[verification];
    case 'failed':
    case 'not_sent':
      return 'failed';
  }
}

/** The outcome of a succeeded command, by its verification. */
const outcomeOfVerification: Readonly<Record<VerificationStatus, StepOutcome>> = {
  pending: 'in_progress',
  verified: 'succeeded',
  mismatched: 'failed',
  timed_out: 'failed',
  unverifiable: 'succeeded',
};
