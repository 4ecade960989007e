import { timingSafeEqual } from 'node:crypto';
import type { SealedPlace, Sealer } from '../domain/sealing.ts';
import { fingerprint } from './cookie-sessions.ts';

/**
 * CSRF tokens: a cookie session must send one with every change, to prove that the request comes from a page of this
 * service. Stateless: each is sealed and bound to its session.
 */
export interface CsrfTokens {
  /** For the session of this name; null before sign-in. */
  issue(session: string | null): string;
  isValid(token: string, session: string | null): boolean;
  /** Whether the token has the fingerprint stored with a session: the token that the browser had before sign-in. */
  matchesFingerprint(token: string, stored: string): boolean;
}

const MAX_LENGTH = 512;
const boundTo = (session: string | null): SealedPlace => ({
  purpose: 'csrf tokens',
  aad: `csrf ${session ?? 'before sign-in'}`,
});

export const makeCsrfTokens = ({ seal, open }: Pick<Sealer, 'seal' | 'open'>): CsrfTokens => ({
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
  matchesFingerprint: (token, stored) => timingSafeEqual(Buffer.from(fingerprint(token)), Buffer.from(stored)),
});
