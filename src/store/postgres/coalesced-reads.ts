import type { CollectionSizes } from '../../domain/collection-sizes.ts';

interface ReadInFlight {
  finished: Promise<unknown>;
  /** For all who asked since it began. */
  next: Promise<unknown> | null;
}

/**
 * Reads that ask the same at the same time are done once: while one runs, those who ask gather, and one read that begins
 * after they asked answers all of them. So each sees what was committed before it asked, its own writes too, and a lone
 * read waits for nobody. What is answered is shared: nobody may change it.
 */
export class CoalescedReads {
  private readonly running = new Map<string, ReadInFlight>();

  sizes(): CollectionSizes {
    return { shared_reads: this.running.size };
  }

  /** `key` says what is asked, all of it. */
  read<T>(key: string, run: () => Promise<T>): Promise<T> {
    const current = this.running.get(key);
    if (current === undefined) return this.start(key, run);
    current.next ??= current.finished.then(() => this.start(key, run));
    return current.next as Promise<T>;
  }

  private start<T>(key: string, run: () => Promise<T>): Promise<T> {
    const answer = run();
    const settled = () => {
      if (this.running.get(key) === running && running.next === null) this.running.delete(key);
    };
    const running: ReadInFlight = { finished: answer.then(settled, settled), next: null };
    this.running.set(key, running);
    return answer;
  }
}
