import { Random } from './random.ts';
import { Scheduler } from './scheduler.ts';
import { Trace } from './trace.ts';

/** A violated invariant. Ends the run. */
export class Violation extends Error {
  override name = 'Violation';
  /** The invariant's name, as in `docs/testing.md`. */
  readonly invariant: string;
  constructor(invariant: string, detail: string) {
    super(detail);
    this.invariant = invariant;
  }
}

const START = Date.UTC(2026, 0, 1);

/** One run's clock, randomness, trace and findings. */
export class World {
  readonly seed: number;
  readonly random: Random;
  readonly scheduler: Scheduler;
  readonly trace: Trace;
  /** Counts of events, for the summary and to check that a run had an effect. */
  readonly counts = new Map<string, number>();
  readonly violations: Violation[] = [];

  constructor(seed: number, print: ((line: string) => void) | null) {
    this.seed = seed;
    this.random = new Random(`seed ${seed}`);
    this.scheduler = new Scheduler(START, (task) => this.trace.step(task.at, task.owner?.name ?? ''));
    this.trace = new Trace(() => this.scheduler.elapsed, print);
  }

  /** Whole epoch milliseconds, as a `Clock` of the service. */
  now(): number {
    return Math.floor(this.scheduler.now);
  }

  note(who: string, what: string): void {
    this.trace.note(who, what);
  }

  count(what: string, times = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + times);
  }

  fail(invariant: string, detail: string): void {
    this.trace.note('VIOLATION', `${invariant}: ${detail}`);
    this.violations.push(new Violation(invariant, detail));
  }

  get failed(): boolean {
    return this.violations.length > 0;
  }
}
