import { AsyncLocalStorage } from 'node:async_hooks';

/** A simulated process. Its tasks run while it runs, wait while it is paused, and are dropped when it has ended. */
export interface Owner {
  readonly name: string;
  state: 'running' | 'paused' | 'dead';
  readonly machine: Machine;
}

/** State shared by all processes of one host. */
export interface Machine {
  /** The host's wall clock minus the true time, in milliseconds; the monotonic clock is always right. */
  clockOffsetMs: number;
}

export interface Task {
  at: number;
  readonly seq: number;
  run: () => void;
  /** Null: part of the environment, which neither pauses nor ends. */
  readonly owner: Owner | null;
  cancelled: boolean;
}

/** Cancels the task and releases its callback. */
export function cancel(task: Task): void {
  task.cancelled = true;
  task.run = nothing;
}

const nothing = (): void => {};

const owners = new AsyncLocalStorage<Owner | null>();
const realImmediate = globalThis.setImmediate;
/** Runs everything that is ready without time passing: `nextTick` callbacks and promise reactions. */
export const drained = (): Promise<void> => new Promise((resolve) => realImmediate(resolve));

/** Steps per pass of the real event loop, whose system calls cost more than a step. */
const STEPS_A_PASS = 64;

/**
 * Calls `step` until it returns false. All `nextTick` callbacks and promise reactions run between two calls, as in Node
 * between two immediates of one pass.
 */
function eachDrained(step: () => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    let going = true;
    const once = () => {
      if (!going) return;
      try {
        going = step();
        if (!going) resolve();
      } catch (error) {
        going = false;
        reject(error);
      }
    };
    const pass = () => {
      if (!going) return;
      for (let n = 0; n < STEPS_A_PASS; n++) realImmediate(once);
      realImmediate(pass);
    };
    pass();
  });
}

/** The process whose code is running, or null for the environment. */
export const currentOwner = (): Owner | null => owners.getStore() ?? null;

/** Runs `body` as part of a process, which owns everything it schedules and awaits. */
export const runAs = <T>(owner: Owner | null, body: () => T): T => owners.run(owner, body);

/** One virtual clock and one queue, ordered by due time and then by time of scheduling. */
export class Scheduler {
  /** Epoch milliseconds, with fractions. */
  now: number;
  steps = 0;
  readonly #start: number;
  readonly #onStep: (task: Task) => void;
  readonly #heap: Task[] = [];
  /** Tasks that became due while their process was paused, in that order. */
  readonly #held = new Map<Owner, Task[]>();
  #seq = 0;

  constructor(start: number, onStep: (task: Task) => void) {
    this.now = start;
    this.#start = start;
    this.#onStep = onStep;
  }

  /** Milliseconds since the start of the run. */
  get elapsed(): number {
    return this.now - this.#start;
  }

  /** Runs `run` after `ms`, as part of `owner`: by default the running process. */
  at(ms: number, run: () => void, owner: Owner | null = currentOwner()): Task {
    const task: Task = { at: this.now + Math.max(0, ms), seq: this.#seq++, run, owner, cancelled: false };
    this.#push(task);
    return task;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.at(ms, resolve));
  }

  /** Resumes a paused process: its overdue tasks run in the order of their due times. */
  resume(owner: Owner): void {
    if (owner.state === 'paused') owner.state = 'running';
    const held = this.#held.get(owner) ?? [];
    this.#held.delete(owner);
    for (const task of held) {
      task.at = this.now;
      this.#push(task);
    }
  }

  /** Runs until `done`, or until the virtual time `until`; at most `maxSteps` steps. */
  async run(until: number, done: () => boolean, maxSteps: number): Promise<void> {
    let left = maxSteps;
    await eachDrained(() => {
      if (done()) return false;
      const next = this.#heap[0];
      if (next === undefined || next.at > until) return false;
      if (left-- === 0) throw new Error(`more than ${maxSteps} steps without an end at ${this.elapsed} ms`);
      this.#pop();
      this.#runTask(next);
      return true;
    });
    if (!done()) this.now = Math.max(this.now, until);
  }

  #runTask(task: Task): void {
    const { owner } = task;
    if (task.cancelled || owner?.state === 'dead') return;
    if (owner?.state === 'paused') {
      this.#hold(owner, task);
      return;
    }
    this.now = Math.max(this.now, task.at);
    this.steps += 1;
    this.#onStep(task);
    runAs(owner, task.run);
  }

  /** Advances time without running anything. Tasks that became due run afterwards. */
  skip(ms: number): void {
    this.now += ms;
  }

  #hold(owner: Owner, task: Task): void {
    const held = this.#held.get(owner);
    if (held === undefined) this.#held.set(owner, [task]);
    else held.push(task);
  }

  #push(task: Task): void {
    const heap = this.#heap;
    let at = heap.push(task) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(task, heap[parent] as Task)) break;
      heap[at] = heap[parent] as Task;
      at = parent;
    }
    heap[at] = task;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop() as Task;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      if (left >= heap.length) break;
      const right = left + 1;
      const least = right < heap.length && isBefore(heap[right] as Task, heap[left] as Task) ? right : left;
      if (!isBefore(heap[least] as Task, last)) break;
      heap[at] = heap[least] as Task;
      at = least;
    }
    heap[at] = last;
  }
}

const isBefore = (a: Task, b: Task): boolean => a.at < b.at || (a.at === b.at && a.seq < b.seq);
