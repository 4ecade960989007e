import { z } from 'zod';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { Cache } from '../store/contract.ts';

const invalidation = z.discriminatedUnion('about', [
  /** A user's row changed. */
  z.object({ about: z.literal('user'), id: z.string() }),
  /** An API key ended before its expiry. */
  z.object({ about: z.literal('key'), prefix: z.string() }),
  /** A token was revoked by a logout; `until` is when it would have expired. */
  z.object({ about: z.literal('token'), id: z.string(), until: z.number() }),
  /** A token was presented at `/mcp`. */
  z.object({ about: z.literal('presented'), digest: z.string(), until: z.number() }),
]);

/** An entry of the identity caches that is no longer valid. */
export type Invalidation = z.infer<typeof invalidation>;

/** Publishes committed changes of users, API keys and tokens to the caches of every process in the deployment. */
export interface InvalidationBus extends SizeReporter {
  /** Listeners in this process have run when it returns; those in other processes run within a second. */
  publish(item: Invalidation): void;
  subscribe(listener: (item: Invalidation) => void): () => void;
}

/** An invalidation bus within this process. */
export function makeLocalInvalidationBus(): InvalidationBus {
  const listeners = new Set<(item: Invalidation) => void>();
  return {
    sizes: () => ({ news_listeners: listeners.size }),
    publish(item) {
      for (const listener of [...listeners]) listener(item);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

const CHANNEL = 'invalidations';

/** An invalidation bus among all processes that share the cache. `origin` is the unique name of this process. */
export async function openInvalidationBus(
  cache: Pick<Cache, 'publish' | 'subscribe'>,
  origin: string,
  log: Log,
): Promise<InvalidationBus> {
  const local = makeLocalInvalidationBus();
  await cache.subscribe(CHANNEL, (message) => {
    const gap = message.indexOf(' ');
    if (message.slice(0, gap) === origin) return;
    const item = parseInvalidation(message.slice(gap + 1));
    if (item !== null) local.publish(item);
  });
  return {
    ...local,
    publish(item) {
      local.publish(item);
      cache.publish(CHANNEL, `${origin} ${JSON.stringify(item)}`).catch((error: unknown) => {
        log.warn(
          { err: error, about: item.about },
          'invalidation publish failed; other processes may use outdated entries',
        );
      });
    },
  };
}

/** Null if it cannot be parsed, such as a message from a process of another version. */
function parseInvalidation(text: string): Invalidation | null {
  try {
    return invalidation.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
