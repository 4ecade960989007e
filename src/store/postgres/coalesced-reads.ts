import type { CollectionSizes } from '../../domain/collection-sizes.ts';

interface ReadInFlight {
  finished: Promise<unknown>;
  /** Shared by all callers that arrived since this read began. */
  next: Promise<unknown> | null;
}

/**
 * Coalesces identical concurrent reads: callers that arrive while a read runs share one read that starts after it. So
 * each caller sees everything committed before its call, including its own writes, and a single read never waits. The
 * result is shared and must not be modified.
 */
export class CoalescedReads {
  readonly #running = new Map<string, ReadInFlight>();

  sizes(): CollectionSizes {
    return { shared_reads: this.#running.size };
  }

  /** `key` identifies the read completely. */
  read<T>(key: string, run: () => Promise<T>): Promise<T> {
    const current = this.#running.get(key);
    if (current === undefined) return this.#start(key, run);
    current.next ??= current.finished.then(() => this.#start(key, run));
    return current.next as Promise<T>;
  }

  #start<T>(key: string, run: () => Promise<T>): Promise<T> {
    const result = run();
    const onSettled = () => {
      if (this.#running.get(key) === running && running.next === null) this.#running.delete(key);
    };
    const running: ReadInFlight = { finished: result.then(onSettled, onSettled), next: null };
    this.#running.set(key, running);
    return result;
  }
}
