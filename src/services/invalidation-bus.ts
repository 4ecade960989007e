import { z } from 'zod';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { Cache } from '../store/contract.ts';

const invalidation = z.discriminatedUnion('about', [
  /** A user's row changed. */
  z.object({ about: z.literal('user'), id: z.string() }),
  /** An API key ended before its expiry, or with `endsAt` ends then at the latest. */
  z.object({ about: z.literal('key'), prefix: z.string(), endsAt: z.number().optional() }),
  /** A token was revoked by a logout; `until` is when it would have expired. */
  z.object({ about: z.literal('token'), id: z.string(), until: z.number() }),
  /** A token was presented at `/mcp`; `userId` is missing if a node of an older build reports it. */
  z.object({ about: z.literal('presented'), digest: z.string(), until: z.number(), userId: z.string().optional() }),
  /** A cookie session was closed; `name` is its key in the cache. */
  z.object({ about: z.literal('session'), name: z.string() }),
  /** Groups of a tenant, or their devices, changed. */
  z.object({ about: z.literal('groups'), tenantId: z.string() }),
  /** A CA of devices became invalid, or its certificate with this serial number, or its certificates of this device. */
  z.object({
    ...{ about: z.literal('ca'), id: z.string() },
    ...{ serialNumber: z.string().optional(), deviceId: z.string().optional() },
  }),
  /** A system flag changed. */
  z.object({ about: z.literal('flags') }),
]);

/** An entry of the identity caches that is no longer valid. */
export type Invalidation = z.infer<typeof invalidation>;

/**
 * Publishes committed changes of users, API keys, tokens, cookie sessions, groups and flags to the caches of every process in
 * the deployment.
 */
export interface InvalidationBus extends SizeReporter {
  /** Listeners in this process have run when it returns; those in other processes run within a second. */
  publish(item: Invalidation): void;
  subscribe(listener: (item: Invalidation) => void): () => void;
  /**
   * True while every invalidation that any process published more than a second ago was received. While false, caches
   * read from the store, and keep nothing that they read.
   */
  isCurrent(): boolean;
  /** Number of times that invalidations may have been missed. */
  readonly gaps: number;
  /**
   * Calls `listener` after each such time, before the bus is current again: it drops or reads again what may be
   * outdated. Repeated if it throws.
   */
  subscribeMissed(listener: () => void | Promise<void>): () => void;
  /** How long entries of caches are kept, in milliseconds; 0 means no limit. */
  readonly entryLifeMs: number;
  close(): Promise<void>;
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
    isCurrent: () => true,
    gaps: 0,
    subscribeMissed: () => () => {},
    entryLifeMs: 0,
    close: async () => {},
  };
}

export const CHANNEL = 'invalidations';

/**
 * The invalidation bus of a deployment with one active process. `origin` is the unique name of this process. Another
 * process that shares the cache is a standby, which starts with empty caches.
 */
export async function openInvalidationBus(
  cache: Pick<Cache, 'publish' | 'subscribe'>,
  origin: string,
  log: Log,
): Promise<InvalidationBus> {
  const local = makeLocalInvalidationBus();
  await cache.subscribe(CHANNEL, (message) => {
    const { origin: sender, text } = messageParts(message);
    const item = sender === origin ? null : parseInvalidation(text);
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

/** Divides a message into the name of its sender and its JSON. */
export function messageParts(message: string): { origin: string; text: string } {
  const gap = message.indexOf(' ');
  return { origin: message.slice(0, gap), text: message.slice(gap + 1) };
}

/** Null if it cannot be parsed, such as a message from a process of another version. */
export function parseInvalidation(text: string): Invalidation | null {
  try {
    return invalidation.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
