import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Milliseconds } from '../../domain/values.ts';

/** A slice ends with the step that exceeds this time. */
const SLICE_MS: Milliseconds = 5;

/** A value that is built once, in steps: each yields. */
export class SlicedBuild<T> {
  readonly #steps: Generator<void, T>;
  #result: { value: T } | { error: unknown } | null = null;
  #building: Promise<T> | null = null;

  constructor(steps: Generator<void, T>) {
    this.#steps = steps;
  }

  /** Builds what is missing at once. */
  get(): T {
    while (this.#result === null) this.#step();
    if ('error' in this.#result) throw this.#result.error;
    return this.#result.value;
  }

  /** Builds what is missing in slices, between which other events are handled. */
  build(): Promise<T> {
    this.#building ??= this.#buildSlices();
    return this.#building;
  }

  async #buildSlices(): Promise<T> {
    while (this.#result === null) {
      const from = performance.now();
      while (this.#result === null && performance.now() - from < SLICE_MS) this.#step();
      if (this.#result === null) await yieldToEventLoop();
    }
    return this.get();
  }

  #step(): void {
    try {
      const { done, value } = this.#steps.next();
      if (done) this.#result = { value };
    } catch (error) {
      this.#result = { error };
    }
  }
}
