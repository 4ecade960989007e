import { timingSafeEqual } from 'node:crypto';
import type { Sealer } from '../domain/sealing.ts';
import { fingerprint } from './cookie-sessions.ts';

/**
 * Tokens that prove that a change was asked for by a page of ours: what a cookie session needs beside its cookie. Nothing is
 * kept of them: they are sealed, bound to the session.
 */
export interface CsrfTokens {
  /** For the session of this name; null before there is one. */
  issue(session: string | null): string;
  isValid(token: string, session: string | null): boolean;
  /** Whether it is the token of which a session kept the fingerprint: the one its browser had before signing in. */
  matchesFingerprint(token: string, kept: string): boolean;
}

const MAX_LENGTH = 512;
const boundTo = (session: string | null): string => `csrf ${session ?? 'before sign-in'}`;

export const makeCsrfTokens = ({ seal, open }: Sealer): CsrfTokens => ({
  issue: (session) => seal('', boundTo(session)),
  isValid(token, session) {
    if (token.length > MAX_LENGTH) return false;
    try {
      open(token, boundTo(session));
      return true;
    } catch {
      return false;
    }
  },
  matchesFingerprint: (token, kept) => timingSafeEqual(Buffer.from(fingerprint(token)), Buffer.from(kept)),
});
