import { z } from 'zod';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { Cache } from '../store/contract.ts';

const invalidation = z.discriminatedUnion('about', [
  /** A user's row changed. */
  z.object({ about: z.literal('user'), id: z.string() }),
  /** An API key is dead before its time. */
  z.object({ about: z.literal('key'), prefix: z.string() }),
  /** A token was logged out; `until` is when it would have expired. */
  z.object({ about: z.literal('token'), id: z.string(), until: z.number() }),
  /** A token was presented at `/mcp`. */
  z.object({ about: z.literal('presented'), digest: z.string(), until: z.number() }),
]);

/** What a process may remember of who calls, and must not go on believing. */
export type Invalidation = z.infer<typeof invalidation>;

/** Tells every process of the deployment what has changed about who calls, after it was committed. */
export interface InvalidationBus extends SizeReporter {
  /** Those who listen in this process have heard when it returns; in others they do within a second. */
  publish(item: Invalidation): void;
  subscribe(listener: (item: Invalidation) => void): () => void;
}

/** Within this process. */
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

const CHANNEL = 'news';

/** Among all processes that share the cache. `origin` is this process's own name among them. */
export async function openInvalidationBus(
  cache: Pick<Cache, 'publish' | 'subscribe'>,
  origin: string,
  log: Log,
): Promise<InvalidationBus> {
  const here = makeLocalInvalidationBus();
  await cache.subscribe(CHANNEL, (message) => {
    const gap = message.indexOf(' ');
    if (message.slice(0, gap) === origin) return;
    const item = parseInvalidation(message.slice(gap + 1));
    if (item !== null) here.publish(item);
  });
  return {
    ...here,
    publish(item) {
      here.publish(item);
      cache.publish(CHANNEL, `${origin} ${JSON.stringify(item)}`).catch((error: unknown) => {
        log.warn({ err: error, about: item.about }, 'other processes were not told of a change');
      });
    },
  };
}

/** Null for what a process of another version says. */
function parseInvalidation(text: string): Invalidation | null {
  try {
    return invalidation.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
