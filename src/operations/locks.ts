import type { CollectionSizes } from '../domain/collection-sizes.ts';

interface Queue {
  /** When the last one that wanted to be alone is done. */
  alone: Promise<unknown>;
  /** Those that came after it and share. */
  together: Set<Promise<unknown>>;
  users: number;
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
  alone<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.enter(key);
    const result = Promise.all([queue.alone, ...queue.together]).then(work);
    queue.alone = this.leaving(key, queue, result);
    queue.together = new Set();
    return result;
  }

  /** Runs `work` beside others that share `key`, never beside one that is alone with it. */
  together<T>(key: string, work: () => Promise<T>): Promise<T> {
    const queue = this.enter(key);
    const result = queue.alone.then(work);
    const { together } = queue;
    const left: Promise<unknown> = this.leaving(key, queue, result).then(() => together.delete(left));
    together.add(left);
    return result;
  }

  private enter(key: string): Queue {
    const queue = this.queues.get(key) ?? { alone: Promise.resolve(), together: new Set(), users: 0 };
    this.queues.set(key, queue);
    queue.users += 1;
    return queue;
  }

  /** Resolves, never rejects, when `result` is settled; the last one out removes the queue. */
  private leaving(key: string, queue: Queue, result: Promise<unknown>): Promise<unknown> {
    const left = () => {
      queue.users -= 1;
      if (queue.users === 0) this.queues.delete(key);
    };
    return result.then(left, left);
  }
}
