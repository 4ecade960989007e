import { hash, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { type Clock, referenceOf } from '../domain/clock.ts';
import type { SizeReporter } from '../domain/collection-sizes.ts';
import { isScope, type Scope } from '../domain/scopes.ts';
import type { EpochMs } from '../domain/values.ts';
import type { SealedCache } from './sealed-cache.ts';
import { MAX_TOKEN_LIFE_S, tokenRefSchema } from './tokens.ts';

export const scopesSchema = z
  .array(z.custom<Scope>((text) => typeof text === 'string' && isScope(text)))
  .readonly()
  .nullable();

const holderSchema = z.object({
  userId: z.uuid(),
  scopes: scopesSchema,
  platformAdmin: z.boolean(),
  /** The token that opened it: the session ends with it. */
  token: tokenRefSchema,
  /** Hash of the CSRF token that the browser had before, which goes on being good. */
  csrf: z.string().nullable(),
});
const sessionSchema = holderSchema.extend({ name: z.string(), until: z.number() });

/** What a browser's session stands for: a person, as their token did. */
export type SessionHolder = z.infer<typeof holderSchema>;
/** `name` is what the cache knows it by: a hash of the cookie, no secret. */
export type CookieSession = z.infer<typeof sessionSchema>;

export interface CookieSessions extends SizeReporter {
  /** Lives until its token ends; `secret` is the cookie's value, and is kept nowhere. */
  open(holder: SessionHolder): Promise<{ secret: string; until: EpochMs }>;
  /** Null for one that is unknown, closed or over. Whether its token was revoked is not looked at. */
  find(secret: string): CookieSession | null | Promise<CookieSession | null>;
  /** Whether `find` needs no look at the cache. */
  isCached(secret: string): boolean;
  close(secret: string): Promise<void>;
}

const SECRET = /^[A-Za-z0-9_-]{43}$/;
const MAX_CACHED_SESSIONS = 10_000;

/** What is kept of a secret. */
export const fingerprint = (secret: string): string => hash('sha256', secret, 'base64url');

const keyOf = (name: string): string => `session:${name}`;

export function makeCookieSessions({ vault, clock }: { vault: SealedCache; clock: Clock }): CookieSessions {
  const remembered = new LRUCache<string, CookieSession>({ max: MAX_CACHED_SESSIONS });
  // By the clock that its token is verified by.
  const living = (session: CookieSession): CookieSession | null =>
    referenceOf(clock) < session.until ? session : null;

  /** Counts what was closed: a session that was read meanwhile may be of the past. */
  let closed = 0;

  async function load(name: string): Promise<CookieSession | null> {
    const since = closed;
    const kept = await vault.get(keyOf(name));
    if (kept === null) return null;
    const session = sessionSchema.parse(JSON.parse(kept));
    if (since === closed) remembered.set(name, session);
    return living(session);
  }

  return {
    async open(holder) {
      const now = referenceOf(clock);
      const until = Math.min(holder.token.expiresAt, now + MAX_TOKEN_LIFE_S * 1000);
      const secret = randomBytes(32).toString('base64url');
      const name = fingerprint(secret);
      const session: CookieSession = { ...holder, name, until };
      await vault.set(keyOf(name), JSON.stringify(session), until - now);
      remembered.set(name, session);
      return { secret, until };
    },
    find(secret) {
      if (!SECRET.test(secret)) return null;
      const name = fingerprint(secret);
      const session = remembered.get(name);
      return session === undefined ? load(name) : living(session);
    },
    sizes: () => ({ cookie_sessions: remembered.size }),
    isCached: (secret) => remembered.has(fingerprint(secret)),
    async close(secret) {
      const name = fingerprint(secret);
      const forget = () => {
        closed += 1;
        remembered.delete(name);
      };
      forget();
      // And again: it may have been read while it was being deleted.
      await vault.delete(keyOf(name)).finally(forget);
    },
  };
}
