import { randomUUID } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import Provider from 'oidc-provider';
import { type Browser, browserAt } from './browser.ts';
import { startService, type TestService } from './service.ts';

export const CLIENT = { id: 'twinkeep-browser', secret: 'a secret of the client' };
export const OPERATORS = { name: 'groups', value: 'twinkeep-operators' };

export interface Account {
  email?: string;
  email_verified?: boolean;
  groups?: string[];
  /** A claim of this name, also in ID tokens. */
  scope?: string;
}

/** `oidc-provider` on loopback: an independent implementation of OpenID Connect. */
export interface IdentityProvider {
  issuer: string;
  accounts: Map<string, Account>;
  /** Configures the redirect URI, once it is known. Earlier requests are answered with 503. */
  configure(redirectUri: string, more?: { emailInIdToken?: boolean; clientSecret?: boolean }): Promise<void>;
  /** Signs a user in at the provider, from its authorization URL; returns the URL of the redirect. */
  signIn(authorizationUrl: string, login: string): Promise<string>;
  /** An access token (`at+jwt`) of the user for the audience, issued to another client of the provider. */
  accessToken(login: string, audience: string, scope?: string): Promise<string>;
  /** Signs the user out at the provider in the browser of the last `signIn`, which notifies the service. */
  signOut(login: string): Promise<void>;
  /** A logout token for the client, signed by the provider's key; undefined claims are left out. */
  logoutToken(claims: Record<string, unknown>, header?: { typ?: string }): Promise<string>;
  /** An access token that a program requests for itself, by its client credentials. */
  clientToken(audience: string): Promise<string>;
  close(): Promise<void>;
}

const MACHINE = { id: 'a-program', secret: 'a secret of the program' };
const ELSEWHERE = 'http://127.0.0.1:9/callback';

export async function identityProvider(): Promise<IdentityProvider> {
  let listener: RequestListener = (_request, response) => response.writeHead(503).end();
  const server = createServer((request, response) => listener(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const accounts = new Map<string, Account>();
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const jwks = { keys: [{ ...(await exportJWK(privateKey)), kid: 'first', alg: 'RS256', use: 'sig' }] };

  const browsers = new Map<string, Browser>();

  /** Fills in the provider's forms until it redirects to another origin. */
  async function followForms(browser: Browser, start: string, login: string): Promise<string> {
    browsers.set(login, browser);
    let answer = await browser.request('GET', start);
    for (let steps = 0; steps < 20; steps++) {
      const location = answer.headers.get('location');
      if (location !== null) {
        const next = new URL(location, issuer);
        if (next.origin !== issuer) return next.href;
        answer = await browser.request('GET', next.href);
        continue;
      }
      const action = /<form[^>]* action="([^"]+)"/.exec(answer.body)?.[1];
      const prompt = /name="prompt" value="(\w+)"/.exec(answer.body)?.[1];
      if (action === undefined || prompt === undefined) throw new Error(`no form: ${answer.status} ${answer.body}`);
      answer = await browser.request('POST', action, { form: { prompt, login, password: 'x' } });
    }
    throw new Error('the provider redirects in a loop');
  }

  return {
    issuer,
    accounts,
    async configure(redirectUri, { emailInIdToken = false, clientSecret = true } = {}) {
      const provider = new Provider(issuer, {
        jwks,
        clients: [
          {
            client_id: CLIENT.id,
            ...(clientSecret
              ? { client_secret: CLIENT.secret }
              : { token_endpoint_auth_method: 'none', application_type: 'native' }),
            redirect_uris: [redirectUri],
            backchannel_logout_uri: redirectUri.replace(/callback$/, 'backchannel-logout'),
            backchannel_logout_session_required: true,
          },
          {
            client_id: 'other',
            token_endpoint_auth_method: 'none',
            redirect_uris: [ELSEWHERE],
            application_type: 'native',
          },
          {
            ...{ client_id: MACHINE.id, client_secret: MACHINE.secret, redirect_uris: [], response_types: [] },
            grant_types: ['client_credentials'],
          },
        ],
        findAccount: (_context, sub) => ({
          accountId: sub,
          claims: () => ({ sub, ...accounts.get(sub) }),
        }),
        claims: { openid: ['sub', OPERATORS.name, 'scope'], email: ['email', 'email_verified'] },
        conformIdTokenClaims: !emailInIdToken,
        extraTokenClaims: (_context, token) => ({ ...('accountId' in token && accounts.get(`${token.accountId}`)) }),
        cookies: { keys: ['of the test'] },
        // Without the provider's dispatcher, which does not connect to loopback addresses.
        fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined } as object),
        pkce: { required: () => true },
        features: {
          devInteractions: { enabled: true },
          clientCredentials: { enabled: true },
          backchannelLogout: { enabled: true },
          resourceIndicators: {
            enabled: true,
            getResourceServerInfo: (_context, audience) => ({
              scope: 'read:devices write:homes platform:admin',
              audience,
              accessTokenFormat: 'jwt',
              accessTokenTTL: 3_600,
              jwt: { sign: { alg: 'RS256' } },
            }),
          },
        },
      });
      provider.on('server_error', (_context, error) => console.error(error));
      provider.on('backchannel.error', (_context, error) => console.error(error));
      listener = provider.callback();
    },
    signIn: (url, login) => followForms(browserAt(issuer), url, login),
    async accessToken(login, audience, scope = 'openid') {
      const verifier = 'a-verifier-of-the-test-that-is-long-enough-for-pkce';
      const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
      const query = new URLSearchParams({
        ...{ client_id: 'other', response_type: 'code', redirect_uri: ELSEWHERE, scope, resource: audience },
        ...{ code_challenge: Buffer.from(digest).toString('base64url'), code_challenge_method: 'S256' },
      });
      const redirect = await followForms(browserAt(issuer), `${issuer}/auth?${query}`, login);
      const code = new URL(redirect).searchParams.get('code') ?? '';
      const response = await fetch(`${issuer}/token`, {
        method: 'POST',
        body: new URLSearchParams({
          ...{ grant_type: 'authorization_code', code, redirect_uri: ELSEWHERE, client_id: 'other' },
          ...{ code_verifier: verifier, resource: audience },
        }),
      });
      const answer = (await response.json()) as { access_token?: string };
      if (answer.access_token === undefined) throw new Error(JSON.stringify([redirect, answer]));
      return answer.access_token;
    },
    async signOut(login) {
      const browser = browsers.get(login);
      if (browser === undefined) throw new Error(`${login} is not signed in`);
      const page = await browser.request('GET', `${issuer}/session/end`);
      const xsrf = /name="xsrf" value="([^"]+)"/.exec(page.body)?.[1];
      if (xsrf === undefined) throw new Error(`no form: ${page.status} ${page.body}`);
      const ended = await browser.request('POST', `${issuer}/session/end/confirm`, { form: { xsrf, logout: 'yes' } });
      if (ended.status >= 400) throw new Error(`no sign-out: ${ended.status} ${ended.body}`);
    },
    logoutToken(claims, { typ = 'logout+jwt' } = {}) {
      const now = Math.floor(Date.now() / 1000);
      const events = { 'http://schemas.openid.net/event/backchannel-logout': {} };
      const given = { iss: issuer, aud: CLIENT.id, iat: now, exp: now + 120, jti: randomUUID(), events, ...claims };
      return new SignJWT(given).setProtectedHeader({ alg: 'RS256', kid: 'first', typ }).sign(privateKey);
    },
    async clientToken(audience) {
      const basic = Buffer.from(`${MACHINE.id}:${encodeURIComponent(MACHINE.secret)}`).toString('base64');
      const response = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${basic}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource: audience }),
      });
      const answer = (await response.json()) as { access_token?: string };
      if (answer.access_token === undefined) throw new Error(JSON.stringify(answer));
      return answer.access_token;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** A service whose users sign in at a new identity provider. */
export async function startServiceWithProvider(
  start: typeof startService = startService,
): Promise<{ at: TestService; idp: IdentityProvider }> {
  const idp = await identityProvider();
  const at = await start({
    OIDC_ISSUER: idp.issuer,
    OIDC_AUDIENCE: 'https://api.twinkeep.example',
    OIDC_CLIENT_ID: CLIENT.id,
    OIDC_CLIENT_SECRET: CLIENT.secret,
  });
  await idp.configure(`${at.url}/v1/auth/callback`);
  return { at, idp };
}
