import { createHash, hash, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../domain/clock.ts';
import { done, type Outcome, refuse } from '../domain/refusals.ts';
import { scopesSchema } from './cookie-sessions.ts';
import { Locks } from './locks.ts';
import type { SealedCache } from './sealed-cache.ts';

// The CLI handshake (contract §3): a command line and a person at a browser find each other by a code that only the two know.

/** How long a person has from opening the page. */
export const HANDSHAKE_LIFE_MS = 600_000;
/** How long a handshake that is over is told from one that never was. */
const RETENTION_MS = 2 * HANDSHAKE_LIFE_MS;
/** Wrong user codes that end it: who guesses does not see the terminal. */
export const USER_CODE_TRIES = 5;
const USER_CODE_LENGTH = 6;

/** 32 bytes as base64url: a code, or the SHA-256 of a verifier. */
export const isCode = (text: string): boolean => /^[A-Za-z0-9_-]{43}$/.test(text);

/** What the approving person gives: a token of theirs, no wider than what they approve with. */
const grantSchema = z.object({
  userId: z.uuid(),
  scopes: scopesSchema,
  /** The id of the token that they approve with. */
  parent: z.string(),
  /** When they signed in, ms: the token that comes of it does not outlive that sign-in. */
  signedInAt: z.number(),
});
export type Grant = z.infer<typeof grantSchema>;

const recordSchema = z.object({
  challenge: z.string(),
  openedAt: z.number(),
  tries: z.int(),
  grant: grantSchema.nullable(),
  /** Handed over, or ended by wrong guesses. */
  over: z.boolean(),
});
type Handshake = z.infer<typeof recordSchema>;

export interface Handshakes {
  /** The page was opened; the first opening settles the challenge. Answers when that was. */
  open(code: string, challenge: string): Promise<Outcome<{ openedAt: number; until: number }>>;
  approve(code: string, userCode: string, grant: Grant): Promise<Outcome<null>>;
  /** Null while nobody has approved; then, once, what `redeem` makes of the grant. Where it fails the grant stays. */
  poll<T>(code: string, verifier: string, redeem: (grant: Grant) => Promise<Outcome<T>>): Promise<Outcome<T | null>>;
}

interface HandshakeUpdate<T> {
  next?: Handshake;
  answer: Outcome<T>;
}

const handshakeExpired = () => refuse('GONE', 'This sign-in is over: start it again on the command line.');

export function makeHandshakes({ vault, clock }: { vault: SealedCache; clock: Clock }): Handshakes {
  const locks = new Locks();
  const keyOf = (code: string): string => `handshake:${hash('sha256', code, 'base64url')}`;

  /** Reads, decides and keeps, one after another. What `change` leaves untouched is not written. */
  function alone<T>(
    code: string,
    change: (found: Handshake | null) => HandshakeUpdate<T> | Promise<HandshakeUpdate<T>>,
  ): Promise<Outcome<T>> {
    const key = keyOf(code);
    return locks.exclusive(key, async () => {
      const kept = isCode(code) ? await vault.get(key) : null;
      const { next, answer } = await change(kept === null ? null : recordSchema.parse(JSON.parse(kept)));
      if (next !== undefined) await vault.set(key, JSON.stringify(next), next.openedAt + RETENTION_MS - clock.now());
      return answer;
    });
  }

  const ended = ({ over, openedAt }: Handshake): boolean => over || clock.now() >= openedAt + HANDSHAKE_LIFE_MS;

  return {
    open: (code, challenge) =>
      alone(code, (found) => {
        if (!isCode(code) || !isCode(challenge)) {
          return { answer: refuse('VALIDATION_FAILED', 'This is not a link that the command line made.') };
        }
        const opened = found ?? { challenge, openedAt: clock.now(), tries: 0, grant: null, over: false };
        if (opened.challenge !== challenge) {
          // Two who claim one code: one of them is not the command line.
          return { next: { ...opened, over: true }, answer: handshakeExpired() };
        }
        if (ended(opened) || opened.grant !== null) return { answer: handshakeExpired() };
        const { openedAt } = opened;
        const answer = done({ openedAt, until: openedAt + HANDSHAKE_LIFE_MS });
        return found === null ? { next: opened, answer } : { answer };
      }),

    approve: (code, userCode, grant) =>
      alone(code, (found) => {
        if (found === null) return { answer: refuse('NOT_FOUND', 'There is no such sign-in.') };
        if (ended(found) || found.grant !== null) return { answer: handshakeExpired() };
        if (!equal(normalised(userCode), userCodeOf(code))) {
          const tries = found.tries + 1;
          const over = tries >= USER_CODE_TRIES;
          const detail = over
            ? 'Too many wrong codes: start the sign-in again on the command line.'
            : 'These are not the 6 characters that the command line shows.';
          return { next: { ...found, tries, over }, answer: refuse('FORBIDDEN', detail) };
        }
        return { next: { ...found, grant }, answer: done(null) };
      }),

    poll: <T>(code: string, verifier: string, redeem: (grant: Grant) => Promise<Outcome<T>>) =>
      alone<T | null>(code, async (found) => {
        if (found === null) return { answer: refuse('NOT_FOUND', 'The page of this sign-in was not opened yet.') };
        if (!equal(hash('sha256', verifier, 'base64url'), found.challenge)) {
          return { answer: refuse('FORBIDDEN', 'The verifier is not the one of this sign-in.') };
        }
        if (ended(found)) return { answer: handshakeExpired() };
        if (found.grant === null) return { answer: done(null) };
        const answer = await redeem(found.grant);
        return { next: { ...found, grant: null, over: true }, answer };
      }),
  };
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

/** As people type: small letters, blanks and dashes. */
const normalised = (typed: string): string => typed.replace(/[\s-]/g, '').toUpperCase();

function equal(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
