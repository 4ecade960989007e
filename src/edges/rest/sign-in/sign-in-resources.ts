import type { Log } from '../../../domain/log.ts';
import { type Outcome, type Refusal, refusals, refuse } from '../../../domain/refusals.ts';
import { refusalOf } from '../../../operations/faults.ts';
import { openCookieSession, startCookieSession } from '../../../operations/identity/auth.ts';
import type { Services } from '../../../operations/operation.ts';
import type { Cookies } from '../../shared/cookies.ts';
import type { Content } from '../../shared/exchange.ts';
import type { BrowserSignIn } from '../../shared/oidc/browser-sign-in.ts';
import type { PublicResource, ResourceRequest, ResourceResponse } from '../public-resource.ts';
import { parseReturnPath } from './return-to.ts';
import { SCRIPT } from './script.ts';
import { STYLE } from './style.ts';
import { approvalPage, refusalPage } from './views.ts';

export interface SignInParts {
  services: Pick<
    Services,
    'handshakes' | 'users' | 'cookieSessions' | 'csrf' | 'audit' | 'settings' | 'clock' | 'newId'
  >;
  cookies: Cookies;
  /** Null where no identity provider is configured. */
  provider: BrowserSignIn | null;
  /** Where a person lands who did not say. */
  defaultReturnTo: '/console';
  log: Log;
}

/** What people see of signing in: the page of the CLI handshake, and the way to the identity provider and back. */
export function signInResources(parts: SignInParts): PublicResource[] {
  const { services, cookies, provider, log } = parts;
  const { handshakes, settings, users, audit, newId, clock } = services;
  /** Of the service's URL, which may have a path; without a slash at the end. */
  const prefix = (): string => new URL(settings.apiBaseUrl).pathname.replace(/\/v1$/, '');

  const forPeople = (
    path: `/${string}`,
    work: (asked: ResourceRequest) => Promise<Outcome<Content>>,
  ): PublicResource => ({
    path,
    versionedOnly: true,
    async respond(_values, asked) {
      const answer = await work(asked).catch((thrown: unknown) => ({
        ok: false as const,
        refusal: refusalOf(thrown, log, { request_id: asked.requestId }),
      }));
      return answer.ok ? answer.value : refusalResponse(answer.refusal, asked);
    },
  });

  return [
    forPeople('/auth/cli', async ({ query, path }) => {
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

    forPeople('/auth/login', async ({ query }) => {
      if (provider === null) return NO_PROVIDER;
      const asked = new URLSearchParams(query).get('return_to');
      const returnTo = asked === null ? `${prefix()}${parts.defaultReturnTo}` : parseReturnPath(asked);
      if (returnTo === null) return refuse('VALIDATION_FAILED', 'return_to must be a path of this service.');
      const { url, cookie, until } = await provider.begin(returnTo);
      return redirect(url, cookies.set({ name: 'login', value: cookie, until }));
    }),

    forPeople('/auth/callback', async ({ query, headers, requestId }) => {
      if (provider === null) return NO_PROVIDER;
      const finished = await provider.finish(query, cookies.read(headers, 'login'));
      if (!finished.ok) return finished;
      const { proof, returnTo } = finished.value;
      const { scopes, platformAdmin, token, subject } = proof;
      const user = await users.findOrCreate({ id: newId(), ...subject, createdAt: clock.now() });
      const holder = { userId: user.id, scopes, platformAdmin, token };
      const changes = await startCookieSession(services, holder, cookies.readBrowserCookies(headers));
      const deed = { key: null, via: 'rest', action: openCookieSession.name, subject: `user:${user.id}`, requestId };
      await audit.recordDone({ tenantId: user.tenantId, by: user.id, ...deed });
      const set = [...changes, { name: 'login' as const, value: null, until: null }].flatMap(cookies.set);
      return redirect(returnTo, set);
    }),

    {
      path: '/auth/assets/{file}',
      versionedOnly: true,
      respond: ([file = '']) => (Object.hasOwn(assets, file) ? (assets[file] ?? null) : null),
    },
  ];
}

const NO_PROVIDER = refuse('NOT_FOUND', 'No identity provider is configured: sign in with a token.');

const assets: Readonly<Record<string, Content>> = {
  'sign-in.css': { type: 'text/css; charset=utf-8', body: STYLE, cache: 'public, max-age=3600' },
  'sign-in.js': { type: 'text/javascript; charset=utf-8', body: SCRIPT, cache: 'public, max-age=3600' },
};

/**
 * After a chain of redirects that began at another site a browser leaves a SameSite=Strict cookie out, also the one it was
 * just given: whatever page a person lands on must ask who they are by itself, as that of the handshake does.
 */
const redirect = (to: string, headers: readonly string[]): Outcome<Content> => ({
  ok: true,
  value: { type: 'text/plain; charset=utf-8', body: '', status: 303, headers: ['Location', to, ...headers] },
});

/** A sentence for a person, a problem document for a program. */
function refusalResponse(refusal: Refusal, { headers }: ResourceRequest): ResourceResponse {
  if (!headers.accept?.includes('text/html')) return { refusal };
  const { title, status } = refusals[refusal.code];
  const page = refusalPage(title, refusal.detail, status);
  return refusal.retryAfterS === undefined ? page : { ...page, headers: ['Retry-After', `${refusal.retryAfterS}`] };
}

/** What a command line calls its computer: a host name or nothing. */
const hostNameIn = (text: string | null): string | null =>
  text !== null && /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text) ? text : null;
