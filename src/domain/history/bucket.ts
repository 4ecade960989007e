import type { EpochMs, Milliseconds } from '../values.ts';
import type { Sample, SampleValue } from './sample.ts';

/** The numbers among the samples of a bucket. */
export interface NumberSummary {
  count: number;
  min: number;
  max: number;
  /** `SUM_OVERFLOW` if it cannot be represented as a number. */
  sum: number;
}

const SUM_OVERFLOW = Number.MAX_VALUE;

/** Once exceeded, it remains so, in whatever order it is added. Infinity has no JSON text. */
function addSums(one: number, other: number): number {
  const sum = one + other;
  return one === SUM_OVERFLOW || other === SUM_OVERFLOW || !Number.isFinite(sum) ? SUM_OVERFLOW : sum;
}

/** Null if the sum cannot be represented. */
export function meanOf({ count, min, sum }: NumberSummary): number | null {
  if (count === 1) return min;
  return sum === SUM_OVERFLOW ? null : sum / count;
}

/** The samples of a series in one interval, rolled up. */
export interface Bucket {
  start: EpochMs;
  /** Number of samples. 0 for an interval in which a state of an earlier one lasted. */
  count: number;
  numbers: NumberSummary | null;
  last: SampleValue | null;
  /** From the start to the first sample. */
  head: Milliseconds;
  /** How long each text or boolean lasted after the first sample; null for all states but the `MAX_STATES` longest. */
  states: readonly StateTime[];
}

export type StateTime = [state: State | null, lasted: Milliseconds];
export type State = boolean | string;

/** The states of a bucket of numbers. */
export const NO_STATES: readonly StateTime[] = [];

/** Number of states whose times are kept for a bucket. */
export const MAX_STATES = 16;
/** Number of states of a bucket that is being merged, after which only the longest are kept. */
const MAX_OPEN_STATES = 512;

/** A text or boolean is a state that lasts until the next sample; a number is none. */
export const stateOf = (value: SampleValue | null): State | null => (typeof value === 'number' ? null : value);

/**
 * Rolls up samples in their order, for intervals of `step`. A bucket does not depend on earlier ones, so that a late sample
 * changes only its own: the state at its start is that of `last` of an earlier bucket. The last state ends at `until`.
 */
export function rollUp(samples: readonly Sample[], step: Milliseconds, until = Number.POSITIVE_INFINITY): Bucket[] {
  const buckets: Bucket[] = [];
  let from = 0;
  while (from < samples.length) {
    const start = floorTo((samples[from] as Sample).time, step);
    let to = from + 1;
    while (to < samples.length && (samples[to] as Sample).time < start + step) to += 1;
    buckets.push(bucketOf(samples, from, to, start, Math.min(start + step, until)));
    from = to;
  }
  return buckets;
}

export const floorTo = (time: EpochMs, step: Milliseconds): EpochMs => Math.floor(time / step) * step;

function bucketOf(samples: readonly Sample[], from: number, to: number, start: EpochMs, end: EpochMs): Bucket {
  let times: Map<State, Milliseconds> | null = null;
  let numbers: NumberSummary | null = null;
  for (let n = from; n < to; n += 1) {
    const { time, value } = samples[n] as Sample;
    if (typeof value === 'number') numbers = addNumber(numbers, value);
    else {
      const next = n + 1 < to ? (samples[n + 1] as Sample).time : Math.max(end, time);
      times ??= new Map();
      times.set(value, (times.get(value) ?? 0) + next - time);
    }
  }
  const head = (samples[from] as Sample).time - start;
  return {
    start,
    count: to - from,
    numbers,
    last: (samples[to - 1] as Sample).value,
    head,
    states: times === null ? NO_STATES : longestStates(times),
  };
}

function addNumber(numbers: NumberSummary | null, value: number): NumberSummary {
  if (numbers === null) return { count: 1, min: value, max: value, sum: value };
  numbers.count += 1;
  if (value < numbers.min) numbers.min = value;
  if (value > numbers.max) numbers.max = value;
  numbers.sum = addSums(numbers.sum, value);
  return numbers;
}

/** The longest states, longest first, and the total of the others. */
export function longestStates(times: ReadonlyMap<State | null, Milliseconds>, limit = MAX_STATES): StateTime[] {
  if (times.size === 1 && !times.has(null)) return [...times];
  const others = times.get(null) ?? 0;
  const named = [...times].filter(([state]) => state !== null);
  named.sort(([one, a], [other, b]) => b - a || (String(one) < String(other) ? -1 : 1));
  const rest = named.slice(limit).reduce((sum, [, lasted]) => sum + lasted, others);
  return rest === 0 ? named.slice(0, limit) : [...named.slice(0, limit), [null, rest]];
}

/** Buckets with so many states in total that each has its longest ones; each keeps one, and that of the others, at least. */
export function limitStates(buckets: readonly Bucket[], limit: number): readonly Bucket[] {
  const total = buckets.reduce((sum, { states }) => sum + states.length, 0);
  if (total <= limit) return buckets;
  const each = Math.max(1, Math.floor(limit / buckets.length) - 1);
  return buckets.map((bucket) => ({ ...bucket, states: longestStates(new Map(bucket.states), each) }));
}

/** How long each state of an interval lasted. */
type StateTimes = Map<State | null, Milliseconds>;

/** Merges buckets in their order into those of a longer step, and adds the states that last from one to the next. */
export class BucketMerger {
  /** The last value before `from`; null without one. */
  before: SampleValue | null = null;
  readonly #step: Milliseconds;
  readonly #from: EpochMs;
  readonly #closed: Bucket[] = [];
  /** The bucket that is being merged. */
  #open: Bucket | null = null;
  /** Its states; null without one. */
  #times: StateTimes | null = null;
  /** The state at `#until`. */
  #state: State | null = null;
  /** The end of what has been merged. */
  #until: EpochMs;

  /** Buckets before `from` determine the state at `from` alone. `from` is a multiple of `step`. */
  constructor(step: Milliseconds, from: EpochMs) {
    this.#step = step;
    this.#from = from;
    this.#until = from;
  }

  /** `end`: of the bucket, or of its last state. */
  add(bucket: Readonly<Bucket>, end: EpochMs): void {
    const { start, head, last, count, numbers, states } = bucket;
    if (start >= this.#from) {
      if (this.#state !== null) this.#carry(this.#state, start + head);
      const open = this.#at(start);
      if (open.count === 0) open.head = start + head - open.start;
      open.count += count;
      if (numbers !== null) addNumbers(open, numbers);
      open.last = last;
      for (const [state, lasted] of states) this.#addState(state, lasted);
      this.#until = Math.max(this.#until, end);
    } else this.before = last;
    this.#state = stateOf(last);
  }

  /** The buckets; the last state lasts until `until`. */
  finish(until: EpochMs): Bucket[] {
    if (this.#state !== null) this.#carry(this.#state, until);
    this.#close();
    return this.#closed;
  }

  /** Adds the current state to all intervals up to `to`. */
  #carry(state: State, to: EpochMs): void {
    while (this.#until < to) {
      const { start } = this.#at(this.#until);
      const end = Math.min(start + this.#step, to);
      this.#addState(state, end - this.#until);
      this.#until = end;
    }
  }

  #addState(state: State | null, lasted: Milliseconds): void {
    this.#times ??= new Map();
    this.#times.set(state, (this.#times.get(state) ?? 0) + lasted);
    if (this.#times.size > MAX_OPEN_STATES) this.#times = new Map(longestStates(this.#times));
  }

  #at(time: EpochMs): Bucket {
    if (this.#open !== null && time >= this.#open.start && time < this.#open.start + this.#step) return this.#open;
    this.#close();
    this.#open = { start: floorTo(time, this.#step), count: 0, numbers: null, last: null, head: 0, states: NO_STATES };
    return this.#open;
  }

  #close(): void {
    if (this.#open === null) return;
    if (this.#times !== null) this.#open.states = longestStates(this.#times);
    this.#closed.push(this.#open);
    this.#open = null;
    this.#times = null;
  }
}

function addNumbers(bucket: Bucket, { count, min, max, sum }: NumberSummary): void {
  const { numbers } = bucket;
  if (numbers === null) bucket.numbers = { count, min, max, sum };
  else {
    numbers.count += count;
    if (min < numbers.min) numbers.min = min;
    if (max > numbers.max) numbers.max = max;
    numbers.sum = addSums(numbers.sum, sum);
  }
}
