import { createHash, hash, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../domain/clock.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import { uuid } from '../domain/uuid-schema.ts';
import type { Cache } from '../store/contract.ts';
import { scopesSchema } from './cookie-sessions.ts';
import { KeyedLocks } from './keyed-locks.ts';
import type { SealedCache } from './sealed-cache.ts';

// The CLI handshake (contract §3): pairs a command line with a person's browser by a code that only the two know.

/** Time to approve, from opening the page. */
export const HANDSHAKE_LIFE_MS = 600_000;
/** How long an ended handshake is kept, to answer GONE instead of NOT_FOUND. */
const RETENTION_MS = 2 * HANDSHAKE_LIFE_MS;
/** Longer than a redemption takes. */
const CLAIM_MS = 30_000;
/** Wrong user codes that end the handshake: someone who guesses does not see the terminal. */
export const USER_CODE_TRIES = 5;
const USER_CODE_LENGTH = 6;

/** 32 bytes as base64url: a code, or the SHA-256 of a verifier. */
export const isCode = (text: string): boolean => /^[A-Za-z0-9_-]{43}$/.test(text);

/** The approving person's grant: a token with at most the scopes of the token they approve with. */
const grantSchema = z.object({
  userId: uuid,
  scopes: scopesSchema,
  /** The id of the token used to approve. */
  parent: z.string(),
  /** The ids of that token and of everything that it was derived from. An approval by an earlier build has none. */
  ancestors: z.array(z.string()).readonly().optional(),
  /** When the person signed in, ms: the issued token does not outlive that sign-in. */
  signedInAt: z.number(),
});
export type Grant = z.infer<typeof grantSchema>;

const recordSchema = z.object({
  challenge: z.string(),
  openedAt: z.number(),
  tries: z.int(),
  grant: grantSchema.nullable(),
  /** Redeemed, or ended by wrong guesses. */
  over: z.boolean(),
});
type Handshake = z.infer<typeof recordSchema>;

interface HandshakeUpdate<T> {
  next?: Handshake;
  answer: Outcome<T>;
}

const handshakeExpired = () => refuse('GONE', 'This sign-in has ended. Start it again from the command line.');

const keyOf = (code: string): string => `handshake:${hash('sha256', code, 'base64url')}`;

/** The sign-ins of command lines that wait for a person's approval, sealed in the cache. */
export class Handshakes {
  readonly #sealedCache: SealedCache;
  readonly #claims: Pick<Cache, 'add' | 'delete' | 'set'>;
  readonly #clock: Clock;
  readonly #locks = new KeyedLocks();

  constructor(parts: { sealedCache: SealedCache; cache: Pick<Cache, 'add' | 'delete' | 'set'>; clock: Clock }) {
    const { sealedCache, cache, clock } = parts;
    this.#sealedCache = sealedCache;
    this.#claims = cache;
    this.#clock = clock;
  }

  /** Records that the page was opened. The first call fixes the challenge; returns the time of that call. */
  open(code: string, challenge: string): Promise<Outcome<{ openedAt: number; until: number }>> {
    return this.#update(code, (found) => {
      if (!isCode(code) || !isCode(challenge)) {
        return { answer: refuse('VALIDATION_FAILED', 'This link was not created by the command line.') };
      }
      const opened = found ?? { challenge, openedAt: this.#clock.now(), tries: 0, grant: null, over: false };
      if (opened.challenge !== challenge) {
        // Two challenges for one code: one of them does not come from the command line.
        return { next: { ...opened, over: true }, answer: handshakeExpired() };
      }
      if (this.#hasEnded(opened) || opened.grant !== null) return { answer: handshakeExpired() };
      const { openedAt } = opened;
      const answer = done({ openedAt, until: openedAt + HANDSHAKE_LIFE_MS });
      return found === null ? { next: opened, answer } : { answer };
    });
  }

  approve(code: string, userCode: string, grant: Grant): Promise<Outcome<null>> {
    return this.#update(code, (found) => {
      if (found === null) return { answer: refuse('NOT_FOUND', 'Sign-in not found.') };
      if (this.#hasEnded(found) || found.grant !== null) return { answer: handshakeExpired() };
      if (equal(normalised(userCode), userCodeOf(code))) return { next: { ...found, grant }, answer: done(null) };
      const tries = found.tries + 1;
      const over = tries >= USER_CODE_TRIES;
      const detail = over
        ? 'Too many wrong codes. Start the sign-in again from the command line.'
        : 'The code does not match the 6 characters shown on the command line.';
      return { next: { ...found, tries, over }, answer: refuse('FORBIDDEN', detail) };
    });
  }

  /** Null until approved and while another process redeems; then, once, the result of `redeem`. The grant is kept if `redeem` throws. */
  poll<T>(code: string, verifier: string, redeem: (grant: Grant) => Promise<Outcome<T>>): Promise<Outcome<T | null>> {
    return this.#update<T | null>(code, async (found) => {
      if (found === null) return { answer: refuse('NOT_FOUND', 'The page of this sign-in has not been opened yet.') };
      if (!equal(hash('sha256', verifier, 'base64url'), found.challenge)) {
        return { answer: refuse('FORBIDDEN', 'The verifier does not belong to this sign-in.') };
      }
      if (this.#hasEnded(found)) return { answer: handshakeExpired() };
      const { grant } = found;
      if (grant === null) return { answer: done(null) };
      const answer = await this.#claimed(code, () => redeem(grant));
      // The sign-in is still pending, because the other process may fail and leave the grant.
      return answer === null ? { answer: done(null) } : { next: { ...found, grant: null, over: true }, answer };
    });
  }

  /** Null if another process redeems the grant or has redeemed it: the lock of the code is of this process alone. */
  async #claimed<T>(code: string, work: () => Promise<T>): Promise<T | null> {
    const claim = `handshake claim:${hash('sha256', code, 'base64url')}`;
    // The first claim is short, so that it expires if this process or the cache is lost during the work.
    if (!(await this.#claims.add(claim, '', CLAIM_MS))) return null;
    let result: T;
    try {
      result = await work();
    } catch (error) {
      await this.#claims.delete(claim).catch(() => {});
      throw error;
    }
    await this.#claims.set(claim, '', RETENTION_MS);
    return result;
  }

  /** Read-modify-write under the lock of the code. Writes only if `change` returns `next`. */
  #update<T>(
    code: string,
    change: (found: Handshake | null) => HandshakeUpdate<T> | Promise<HandshakeUpdate<T>>,
  ): Promise<Outcome<T>> {
    const key = keyOf(code);
    return this.#locks.exclusive(key, async () => {
      const stored = isCode(code) ? await this.#sealedCache.get(key) : null;
      const { next, answer } = await change(stored === null ? null : recordSchema.parse(JSON.parse(stored)));
      if (next !== undefined) {
        await this.#sealedCache.set(key, JSON.stringify(next), next.openedAt + RETENTION_MS - this.#clock.now());
      }
      return answer;
    });
  }

  #hasEnded({ over, openedAt }: Handshake): boolean {
    return over || this.#clock.now() >= openedAt + HANDSHAKE_LIFE_MS;
  }
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** The first 6 characters of base32(SHA-256(code)). */
export function userCodeOf(code: string): string {
  const bytes = createHash('sha256').update(code).digest();
  const bits = bytes.readUInt32BE(0);
  let text = '';
  for (let n = 0; n < USER_CODE_LENGTH; n++) text += BASE32[(bits >>> (27 - 5 * n)) & 31];
  return text;
}

/** Accepts lower case, spaces and dashes. */
const normalised = (typed: string): string => typed.replace(/[\s-]/g, '').toUpperCase();

function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
