import type { CollectionSizes } from '../domain/collection-sizes.ts';

interface Queue {
  /** When the last one that wanted to be alone is done. */
  lastExclusive: Promise<unknown>;
  /** Those that came after it and share. */
  sharers: Set<Promise<unknown>>;
  holders: number;
}

/**
 * Order among operations of this process that read before they write: counting devices before registering one, looking
 * a home up before placing a device there. One process is active per database, so that its order is everybody's.
 */
export class Locks {
  private readonly queues = new Map<string, Queue>();

  sizes(): CollectionSizes {
    return { locks: this.queues.size };
  }

  /** Runs `work` while nobody else holds `key`. First come, first served. */
  exclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.enter(key);
    const result = Promise.all([queue.lastExclusive, ...queue.sharers]).then(work);
    queue.lastExclusive = this.leave(key, queue, result);
    queue.sharers = new Set();
    return result;
  }

  /** Runs `work` beside others that share `key`, never beside one that is alone with it. */
  shared<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.enter(key);
    const result = queue.lastExclusive.then(work);
    const { sharers } = queue;
    const left: Promise<unknown> = this.leave(key, queue, result).then(() => sharers.delete(left));
    sharers.add(left);
    return result;
  }

  private enter(key: string): Queue {
    const queue = this.queues.get(key) ?? { lastExclusive: Promise.resolve(), sharers: new Set(), holders: 0 };
    this.queues.set(key, queue);
    queue.holders += 1;
    return queue;
  }

  /** Resolves, never rejects, when `result` is settled; the last one out removes the queue. */
  private leave(key: string, queue: Queue, result: Promise<unknown>): Promise<unknown> {
    const left = () => {
      queue.holders -= 1;
      if (queue.holders === 0) this.queues.delete(key);
    };
    return result.then(left, left);
  }
}
