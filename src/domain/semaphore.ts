/** Counting semaphore: at most `permits` calls of `run` work at once, and the others wait in the order of arrival. */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(permits: number) {
    this.#free = permits;
  }

  /** Number of calls that wait. */
  get waiting(): number {
    return this.#waiting.length;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
