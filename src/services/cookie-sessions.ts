import { hash, randomBytes, randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { type Clock, referenceOf } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import { entriesAtMost } from '../domain/lru-bound.ts';
import { isScope, type Scope } from '../domain/scopes.ts';
import { uuid } from '../domain/uuid-schema.ts';
import type { EpochMs } from '../domain/values.ts';
import { type InvalidationBus, makeLocalInvalidationBus } from './invalidation-bus.ts';
import type { SealedCache } from './sealed-cache.ts';
import { chainOf, MAX_TOKEN_LIFE_S, type TokenRef, tokenRefSchema } from './tokens.ts';

export const scopesSchema = z
  .array(z.custom<Scope>((text) => typeof text === 'string' && isScope(text)))
  .readonly()
  .nullable();

const holderSchema = z.object({
  userId: uuid,
  scopes: scopesSchema,
  platformAdmin: z.boolean(),
  /** What opened the session, which ends with it: a token, or the session or token that a sign-in link was made from. */
  token: tokenRefSchema,
  /** Hash of the CSRF token that the browser had before sign-in, which stays valid. */
  csrf: z.string().nullable(),
});
const sessionSchema = holderSchema.extend({
  name: z.string(),
  until: z.number(),
  /** Its id among the tokens. A session that an earlier build opened has none, and ends by the id of its token. */
  id: z.string().optional(),
});

/** The person that a browser session authenticates, with the rights of the token that opened it. */
export type SessionHolder = z.infer<typeof holderSchema>;
/**
 * `name` is the cache key: a hash of the cookie, not a secret. `token` identifies the session itself; its ancestors are
 * what opened it.
 */
export type CookieSession = Omit<z.infer<typeof sessionSchema>, 'id'>;

export interface CookieSessions extends SizeReporter {
  /**
   * The session lasts until its token expires. `secret` is the cookie's value; it is not stored. The returned token
   * identifies the session.
   */
  open(holder: SessionHolder): Promise<{ secret: string; until: EpochMs; token: TokenRef }>;
  /** Null if unknown, closed or expired. Does not check whether the token was revoked. */
  find(secret: string): CookieSession | null | Promise<CookieSession | null>;
  /** Whether the session was found before: finding it again does not count as an attempt to guess one. */
  isCached(secret: string): boolean;
  close(secret: string): Promise<void>;
  /** False while a session that is not found may exist, because the cache lacks what other processes have opened. */
  isComplete(): boolean;
}

const SECRET = /^[A-Za-z0-9_-]{43}$/;
const MAX_CACHED_SESSIONS = 10_000;

/** The stored form of a secret. */
export const fingerprint = (secret: string): string => hash('sha256', secret, 'base64url');

const keyOf = (name: string): string => `session:${name}`;

/** Start of the ids of cookie sessions among the token ids. */
export const SESSION_TOKEN_PREFIX = 'session:';

const sessionOf = ({ id, ...session }: z.infer<typeof sessionSchema>): CookieSession =>
  id === undefined
    ? session
    : { ...session, token: { ...session.token, id, expiresAt: session.until, ancestors: chainOf(session.token) } };

export function makeCookieSessions({
  sealedCache,
  clock,
  invalidations = makeLocalInvalidationBus(),
  isComplete = () => true,
}: {
  sealedCache: SealedCache;
  clock: Clock;
  invalidations?: InvalidationBus;
  isComplete?: () => boolean;
}): CookieSessions {
  const cached = new LRUCache<string, CookieSession>({
    ...entriesAtMost(MAX_CACHED_SESSIONS),
    ttl: invalidations.entryLifeMs,
  });
  // Uses the same clock as token verification.
  const unexpired = (session: CookieSession): CookieSession | null =>
    referenceOf(clock) < session.until ? session : null;

  /** Number of closed sessions. A load during which it changed may be stale and is not cached. */
  let closed = 0;

  const forget = (name: string): void => {
    closed += 1;
    cached.delete(name);
  };
  invalidations.subscribe((item) => {
    if (item.about === 'session') forget(item.name);
  });
  invalidations.subscribeMissed(() => {
    closed += 1;
    cached.clear();
  });

  async function load(name: string): Promise<CookieSession | null> {
    const closedBefore = closed;
    const stored = await sealedCache.get(keyOf(name));
    if (stored === null) return null;
    // A session of a newer build may have a scope that this one does not know.
    const read = sessionSchema.safeParse(JSON.parse(stored)).data;
    if (read === undefined) return null;
    const session = sessionOf(read);
    if (closedBefore === closed && invalidations.isCurrent()) cached.set(name, session);
    return unexpired(session);
  }

  return {
    async open(holder) {
      const now = referenceOf(clock);
      const until = Math.min(holder.token.expiresAt, now + MAX_TOKEN_LIFE_S * 1000);
      const secret = randomBytes(32).toString('base64url');
      const name = fingerprint(secret);
      const stored = { ...holder, name, until, id: SESSION_TOKEN_PREFIX + randomUUID() };
      await sealedCache.set(keyOf(name), JSON.stringify(stored), until - now);
      const session = sessionOf(stored);
      cached.set(name, session);
      return { secret, until, token: session.token };
    },
    find(secret) {
      if (!SECRET.test(secret)) return null;
      const name = fingerprint(secret);
      const session = invalidations.isCurrent() ? cached.get(name) : undefined;
      return session === undefined ? load(name) : unexpired(session);
    },
    sizes: () => ({ cookie_sessions: cached.size }),
    isCached: (secret) => cached.has(fingerprint(secret)),
    isComplete,
    async close(secret) {
      const name = fingerprint(secret);
      forget(name);
      // Again after the deletion, in all processes: a concurrent read may have cached it.
      await sealedCache.delete(keyOf(name)).finally(() => invalidations.publish({ about: 'session', name }));
    },
  };
}
