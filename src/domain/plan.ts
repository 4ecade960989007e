import type { CommandStatus, VerificationStatus } from './command.ts';
import type { FieldError } from './refusals.ts';
import type { JsonObject, Milliseconds } from './values.ts';

// A plan is a directed acyclic graph of steps (contract §6). What stands here is its shape; how it runs is its machine's.

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

/** What happens when a step fails. */
export const failurePolicies = ['rollback', 'stop'] as const;
export type OnFailure = (typeof failurePolicies)[number];

export const MAX_STEPS = 100;
/** A compensation that failed is tried again after each of these, and then given up. */
export const COMPENSATION_RETRIES_MS: readonly Milliseconds[] = [1_000, 5_000, 25_000];

/** What undoes a step, on the same device. */
export interface Compensation {
  action: string;
  params: JsonObject;
}

interface Node {
  id: string;
  depends_on: readonly string[];
}

/** What is wrong with the graph; a cycle is named by its steps. */
export function graphErrors(steps: readonly Node[]): FieldError[] {
  const places = new Map<string, number>();
  const errors: FieldError[] = [];
  steps.forEach(({ id }, place) => {
    if (places.has(id)) errors.push({ path: `steps.${place}.id`, message: 'is the id of an earlier step too' });
    else places.set(id, place);
  });
  steps.forEach(({ depends_on }, place) => {
    const unknown = depends_on.find((id) => !places.has(id));
    if (unknown === undefined) return;
    const message = `names ${JSON.stringify(unknown)}, which is no step of this plan`;
    errors.push({ path: `steps.${place}.depends_on`, message });
  });
  if (errors.length > 0) return errors;
  const cycle = cycleIn(steps);
  if (cycle === null) return [];
  const path = `steps.${places.get(cycle[0] as string)}.depends_on`;
  return [{ path, message: `makes a cycle: ${cycle.join(' → ')}` }];
}

/** The steps of a cycle, each depending on the next one, the first one at both ends; null where there is none. */
function cycleIn(steps: readonly Node[]): string[] | null {
  const left = new Map(steps.map(({ id, depends_on }) => [id, new Set(depends_on)]));
  // Steps whose dependencies are all gone go too; what never goes is on a cycle or depends on one.
  for (let gone = true; gone; ) {
    gone = false;
    for (const [id, needed] of left) {
      if ([...needed].some((other) => left.has(other))) continue;
      left.delete(id);
      gone = true;
    }
  }
  const [start] = left.keys();
  if (start === undefined) return null;
  const way: string[] = [];
  for (let at = start; ; ) {
    const seen = way.indexOf(at);
    if (seen >= 0) return [...way.slice(seen), at];
    way.push(at);
    at = [...(left.get(at) ?? [])].find((other) => left.has(other)) as string;
  }
}

/** What a command's standing means to the plan that asked for it. */
export type StepOutcome = 'waiting' | 'going' | 'succeeded' | 'failed';

/**
 * A step is over when its command is final and its verification decided; a command that timed out is over at once, whatever
 * it says later.
 */
export function outcomeOf(status: CommandStatus, verification: VerificationStatus): StepOutcome {
  switch (status) {
    case 'submitted':
    case 'dispatched':
    case 'acknowledged':
    case 'in_progress':
      return 'going';
    case 'awaiting_confirmation':
      return 'waiting';
    case 'succeeded':
      if (verification === 'pending') return 'going';
      return verification === 'mismatched' || verification === 'timed_out' ? 'failed' : 'succeeded';
    default:
      return 'failed';
  }
}

/** Whether a device may have done something of it: what a rollback then undoes. */
export const mayHaveActed = (status: CommandStatus): boolean => status === 'succeeded' || status === 'timed_out';
