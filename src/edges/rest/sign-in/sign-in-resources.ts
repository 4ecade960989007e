import type { Log } from '../../../domain/log.ts';
import { type Outcome, type Refusal, refusals, refuse } from '../../../domain/refusals.ts';
import { originOf } from '../../../operations/audit-recording.ts';
import { refusalOf } from '../../../operations/faults.ts';
import { openCookieSession, startCookieSession } from '../../../operations/identity/auth.ts';
import type { Services } from '../../../operations/operation.ts';
import type { Cookies } from '../../shared/cookies.ts';
import type { Content } from '../../shared/http-exchange.ts';
import type { BrowserSignIn } from '../../shared/oidc/browser-sign-in.ts';
import type { PublicResource, ResourceRequest, ResourceResponse } from '../public-resource.ts';
import { MARK } from './mark.ts';
import { parseReturnPath } from './return-to.ts';
import { SCRIPT } from './script.ts';
import { STYLE } from './style.ts';
import { approvalPage, refusalPage } from './views.ts';

export interface SignInParts {
  services: Pick<
    Services,
    'handshakes' | 'users' | 'userSessions' | 'cookieSessions' | 'csrf' | 'audit' | 'settings' | 'clock' | 'newId'
  >;
  cookies: Cookies;
  /** Null if no identity provider is configured. */
  provider: BrowserSignIn | null;
  /** Target after sign-in if the request has no `return_to`. */
  defaultReturnTo: '/console';
  log: Log;
}

/** Browser resources of the sign-in: the page of the CLI handshake, and the redirects to and from the identity provider. */
export function signInResources(parts: SignInParts): PublicResource[] {
  const { services, cookies, provider, log } = parts;
  const { handshakes, settings, users, audit, newId, clock } = services;
  /** Path of the service's URL, without a trailing slash. */
  const prefix = (): string => new URL(settings.apiBaseUrl).pathname.replace(/\/v1$/, '');

  const pageResource = (
    path: `/${string}`,
    work: (request: ResourceRequest) => Promise<Outcome<Content>>,
  ): PublicResource => ({
    path,
    versionedOnly: true,
    async respond(_values, request) {
      const outcome = await work(request).catch((thrown: unknown) => ({
        ok: false as const,
        refusal: refusalOf(thrown, log, { request_id: request.requestId }),
      }));
      return outcome.ok ? outcome.value : refusalResponse(outcome.refusal, request);
    },
  });

  return [
    pageResource('/auth/cli', async ({ query, path }) => {
      const given = new URLSearchParams(query);
      const opened = await handshakes.open(given.get('code') ?? '', given.get('challenge') ?? '');
      if (!opened.ok) return opened;
      const back = new URLSearchParams({ return_to: `${prefix()}${path}?${query}` });
      const content = approvalPage({
        ...opened.value,
        service: new URL(settings.apiBaseUrl).host,
        computer: hostNameIn(given.get('host')),
        provider: provider === null ? null : `login?${back}`,
      });
      return { ok: true, value: content };
    }),

    pageResource('/auth/login', async ({ query }) => {
      if (provider === null) return NO_PROVIDER;
      const given = new URLSearchParams(query).get('return_to');
      const returnTo = given === null ? `${prefix()}${parts.defaultReturnTo}` : parseReturnPath(given);
      if (returnTo === null) return refuse('VALIDATION_FAILED', 'return_to must be a path of this service.');
      const { url, cookie, until } = await provider.begin(returnTo);
      return redirect(url, cookies.set({ name: 'login', value: cookie, until }));
    }),

    pageResource('/auth/callback', async ({ query, headers, requestId, address }) => {
      if (provider === null) return NO_PROVIDER;
      const finished = await provider.finish(query, cookies.read(headers, 'login'));
      if (!finished.ok) return finished;
      const { proof, returnTo } = finished.value;
      const { scopes, platformAdmin, token, subject } = proof;
      const user = await users.findOrCreate({ id: newId(), ...subject, createdAt: clock.now() });
      const holder = { userId: user.id, scopes, platformAdmin, token };
      const changes = await startCookieSession(services, holder, {
        cookies: cookies.readBrowserCookies(headers),
        client: headers['user-agent'],
        address,
      });
      if (!changes.ok) return changes;
      await audit.recordDone({
        ...{ tenantId: user.tenantId, by: user.id, key: null, via: 'rest', action: openCookieSession.name },
        ...{ subject: `user:${user.id}`, ...originOf({ requestId, address, client: headers['user-agent'] }) },
      });
      const set = [...changes.value, { name: 'login' as const, value: null, until: null }].flatMap(cookies.set);
      return redirect(returnTo, set);
    }),

    {
      path: '/auth/assets/{file}',
      versionedOnly: true,
      respond: ([file = '']) => (Object.hasOwn(assets, file) ? (assets[file] ?? null) : null),
    },
  ];
}

const NO_PROVIDER = refuse('NOT_FOUND', 'No identity provider is configured. Sign in with a token.');

const assets: Readonly<Record<string, Content>> = {
  'sign-in.css': { type: 'text/css; charset=utf-8', body: STYLE, cache: 'public, max-age=3600' },
  'mark.svg': { type: 'image/svg+xml', body: MARK, cache: 'public, max-age=3600' },
  'sign-in.js': { type: 'text/javascript; charset=utf-8', body: SCRIPT, cache: 'public, max-age=3600' },
};

/**
 * After a redirect chain that started on another site, a browser does not send SameSite=Strict cookies, not even one that was
 * just set. The page at the end must therefore request the identity itself, as the handshake page does.
 */
const redirect = (to: string, headers: readonly string[]): Outcome<Content> => ({
  ok: true,
  value: { type: 'text/plain; charset=utf-8', body: '', status: 303, headers: ['Location', to, ...headers] },
});

/** An HTML page if the client accepts HTML, otherwise a problem document. */
function refusalResponse(refusal: Refusal, { headers }: ResourceRequest): ResourceResponse {
  if (!headers.accept?.includes('text/html')) return { refusal };
  const { title, status } = refusals[refusal.code];
  const page = refusalPage(title, refusal.detail, status);
  return refusal.retryAfterS === undefined ? page : { ...page, headers: ['Retry-After', `${refusal.retryAfterS}`] };
}

/** Host name that the command line sent; null if it is not a valid one. */
const hostNameIn = (text: string | null): string | null =>
  text !== null && /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text) ? text : null;
