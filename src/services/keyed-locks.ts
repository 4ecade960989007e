import type { CollectionSizes } from '../domain/collection-sizes.ts';
import { CommitUnknown } from '../store/contract.ts';

interface Queue {
  /** Settles when the last exclusive holder has released the lock. */
  lastExclusive: Promise<unknown>;
  /** Shared holders that came after it. */
  sharers: Set<Promise<unknown>>;
  holders: number;
}

/**
 * Fair read-write locks by key, for operations that read before they write: counting devices before registering one,
 * finding a home before placing a device there. In-process is enough for what belongs to a tenant, which one node runs.
 * If the work ends while its commit is in flight, the lock is held until the outcome of the commit is known.
 */
export class KeyedLocks {
  readonly #queues = new Map<string, Queue>();

  sizes(): CollectionSizes {
    return { locks: this.#queues.size };
  }

  isHeld(key: string): boolean {
    return this.#queues.has(key);
  }

  /** Runs `work` while it is the only holder of `key`. First in, first out. */
  exclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#enter(key);
    const result = Promise.all([queue.lastExclusive, ...queue.sharers]).then(work);
    queue.lastExclusive = this.#leave(key, queue, result);
    queue.sharers = new Set();
    return result;
  }

  /** Runs `work` concurrently with other shared holders of `key`, never with an exclusive one. */
  shared<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.#enter(key);
    const result = queue.lastExclusive.then(work);
    const { sharers } = queue;
    const left: Promise<unknown> = this.#leave(key, queue, result).then(() => sharers.delete(left));
    sharers.add(left);
    return result;
  }

  #enter(key: string): Queue {
    const queue = this.#queues.get(key) ?? { lastExclusive: Promise.resolve(), sharers: new Set(), holders: 0 };
    this.#queues.set(key, queue);
    queue.holders += 1;
    return queue;
  }

  /**
   * Resolves, never rejects, when `result` is settled and no commit of it is in flight; the last holder removes the
   * queue.
   */
  #leave(key: string, queue: Queue, result: Promise<unknown>): Promise<unknown> {
    const left = () => {
      queue.holders -= 1;
      if (queue.holders === 0) this.#queues.delete(key);
    };
    return result.catch(commitEnd).then(left);
  }
}

/** When the commit of a fault has ended: its sender was answered before. */
const commitEnd = (fault: unknown): Promise<void> | null => (fault instanceof CommitUnknown ? fault.ended : null);
