import type { IncomingHttpHeaders } from 'node:http';
import { type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import type { Caller, Services } from '../../operations/operation.ts';
import type { CookieSession } from '../../services/cookie-sessions.ts';
import type { Authenticator, ProofOfUser, RequestOrigin } from './authenticator.ts';
import { type Cookies, makeCookies } from './cookies.ts';
import { credentialIn } from './http.ts';
import type { PresentsMetricsToken } from './metrics-access.ts';

/** Authenticates requests of every HTTP edge: by a credential in the headers, otherwise by the session cookie. */
export interface HttpAuthenticator {
  cookies: Cookies;
  /** Whether the request has a credential or a session cookie. */
  hasCredential(headers: IncomingHttpHeaders): boolean;
  authenticate(headers: IncomingHttpHeaders, origin: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>>;
  /** The anonymous caller, whatever credential the request has. */
  anonymous(headers: IncomingHttpHeaders, origin: RequestOrigin): Outcome<Caller> | Promise<Outcome<Caller>>;
  /**
   * CSRF check, to be called before every change: a cookie session also has to send its `X-CSRF-Token` (contract §3).
   * Null if the check passes; always null for callers without a session cookie.
   */
  csrfRefusal(headers: IncomingHttpHeaders, caller: Caller): Promise<{ ok: false; refusal: Refusal } | null>;
}

export function makeHttpAuthenticator(parts: {
  identity: Pick<Authenticator, 'authenticate' | 'resolveCaller' | 'refuseUnseenCredential' | 'refuseCredential'>;
  services: Pick<Services, 'cookieSessions' | 'csrf' | 'clock'>;
  secure: boolean;
  presentsMetricsToken?: PresentsMetricsToken;
}): HttpAuthenticator {
  const { identity, presentsMetricsToken = () => false } = parts;
  const { cookieSessions, csrf, clock } = parts.services;
  const cookies = makeCookies({ secure: parts.secure, clock });

  async function authenticateSession(secret: string, origin: RequestOrigin): Promise<Outcome<Caller>> {
    const refusal = cookieSessions.isCached(secret) ? null : identity.refuseUnseenCredential(origin);
    if (refusal !== null) return refusal;
    const session = await cookieSessions.find(secret);
    return session === null ? identity.refuseCredential(origin) : identity.resolveCaller(proofOf(session), origin);
  }

  /** Adds the request's cookies to the caller, for operations that use them. */
  function withCookies(
    caller: Outcome<Caller> | Promise<Outcome<Caller>>,
    headers: IncomingHttpHeaders,
  ): Outcome<Caller> | Promise<Outcome<Caller>> {
    const browserCookies = cookies.readBrowserCookies(headers);
    if (browserCookies === undefined) return caller;
    if (caller instanceof Promise) return caller.then((resolved) => withCookies(resolved, headers));
    return caller.ok ? { ok: true, value: { ...caller.value, cookies: browserCookies } } : caller;
  }

  return {
    cookies,
    hasCredential: (headers) => credentialIn(headers) !== null || cookies.read(headers, 'session') !== null,
    authenticate(headers, given) {
      const origin = { ...given, client: headers['user-agent'] };
      const credential = credentialIn(headers);
      const secret = credential === null ? cookies.read(headers, 'session') : null;
      const caller = secret === null ? identity.authenticate(credential, origin) : authenticateSession(secret, origin);
      return withCookies(caller, headers);
    },
    anonymous(headers, origin) {
      const caller = withCookies(identity.authenticate(null, { ...origin, client: headers['user-agent'] }), headers);
      if (caller instanceof Promise || !caller.ok || !presentsMetricsToken(headers)) return caller;
      return { ok: true, value: { ...caller.value, readsMetrics: true } };
    },
    async csrfRefusal(headers, { cookie, cookies: browserCookies }) {
      if (!cookie) return null;
      const session = await cookieSessions.find(browserCookies?.session ?? '');
      const token = headers['x-csrf-token'];
      if (session !== null && typeof token === 'string') {
        if (csrf.isValid(token, session.name)) return null;
        if (session.csrf !== null && csrf.matchesFingerprint(token, session.csrf)) return null;
      }
      return refuse(
        'CSRF_FAILED',
        'A change with a session cookie requires an X-CSRF-Token header. Get the token from GET /v1/auth/csrf.',
      );
    },
  };
}

const proofOf = ({ userId, scopes, platformAdmin, token, until }: CookieSession): ProofOfUser => ({
  subject: { userId },
  ...{ scopes, platformAdmin, person: true, cookie: true, token, until },
});
