import type { IncomingHttpHeaders } from 'node:http';
import { type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import type { CookieSession } from '../../services/cookie-sessions.ts';
import { type Cookies, makeCookies } from './cookies.ts';
import { credentialIn } from './http.ts';
import type { Identity, ProofOfUser, RequestOrigin } from './identity.ts';

/** Turns an HTTP request into a caller, for every HTTP edge: by a credential in its headers, else by its session cookie. */
export interface HttpAuthenticator {
  cookies: Cookies;
  /** Whether the request names anybody. */
  hasCredential(headers: IncomingHttpHeaders): boolean;
  authenticate(headers: IncomingHttpHeaders, asking: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>>;
  /** Nobody, whatever was presented. */
  anonymous(headers: IncomingHttpHeaders, asking: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>>;
  /**
   * Whether a change that this caller asks for may have been made up by another site: a cookie alone does not do, it takes
   * the session's `X-CSRF-Token` too (contract §3). To be asked before every change; null for a caller without a cookie.
   */
  csrfRefusal(headers: IncomingHttpHeaders, caller: Caller): Promise<{ ok: false; refusal: Refusal } | null>;
}

export function makeHttpAuthenticator(parts: {
  identity: Pick<Identity, 'authenticate' | 'resolveCaller' | 'refuseUnseenCredential' | 'refuseCredential'>;
  services: Pick<Services, 'cookieSessions' | 'csrf' | 'clock'>;
  secure: boolean;
}): HttpAuthenticator {
  const { identity } = parts;
  const { cookieSessions, csrf, clock } = parts.services;
  const cookies = makeCookies({ secure: parts.secure, clock });

  async function bySession(secret: string, asking: RequestOrigin): Promise<Outcome<Caller>> {
    const barred = cookieSessions.isCached(secret) ? null : identity.refuseUnseenCredential(asking);
    if (barred !== null) return barred;
    const session = await cookieSessions.find(secret);
    return session === null ? identity.refuseCredential(asking) : identity.resolveCaller(proofOf(session), asking);
  }

  /** Operations that deal with cookies see them, whoever calls. */
  function withCookies(
    found: Outcome<Caller> | Promise<Outcome<Caller>>,
    headers: IncomingHttpHeaders,
  ): Outcome<Caller> | Promise<Outcome<Caller>> {
    const sent = cookies.readBrowserCookies(headers);
    if (sent === undefined) return found;
    if (found instanceof Promise) return found.then((caller) => withCookies(caller, headers));
    return found.ok ? { ok: true, value: { ...found.value, cookies: sent } } : found;
  }

  return {
    cookies,
    hasCredential: (headers) => credentialIn(headers) !== null || cookies.read(headers, 'session') !== null,
    authenticate(headers, asking) {
      const credential = credentialIn(headers);
      const secret = credential === null ? cookies.read(headers, 'session') : null;
      const found = secret === null ? identity.authenticate(credential, asking) : bySession(secret, asking);
      return withCookies(found, headers);
    },
    anonymous: (headers, asking) => withCookies(identity.authenticate(null, asking), headers),
    async csrfRefusal(headers, { cookie, cookies: sent }) {
      if (!cookie) return null;
      const session = await cookieSessions.find(sent?.session ?? '');
      const token = headers['x-csrf-token'];
      if (session !== null && typeof token === 'string') {
        if (csrf.isValid(token, session.name)) return null;
        if (session.csrf !== null && csrf.matchesFingerprint(token, session.csrf)) return null;
      }
      return refuse('CSRF_FAILED', 'A change by a cookie session needs its X-CSRF-Token: GET /v1/auth/csrf.');
    },
  };
}

const proofOf = ({ userId, scopes, platformAdmin, token, until }: CookieSession): ProofOfUser => ({
  subject: { userId },
  ...{ scopes, platformAdmin, person: true, cookie: true, token, until },
});
