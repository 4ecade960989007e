import { randomUUID } from 'node:crypto';
import { WebSocket } from 'ws';
import { type Browser, browserAt } from './browser.ts';
import { register } from './device.ts';
import { httpRequest } from './http-request.ts';
import { type ApiClient, type ApiResponse, runningClock, startService, type TestService } from './service.ts';
import { startTestIssuer, type TestIssuer } from './test-issuer.ts';

/** A client whose access is tested: with a bearer token, or with a browser's cookie and its CSRF token. */
export interface Requester {
  name: string;
  request(
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<Pick<ApiResponse, 'status' | 'body' | 'headers'>>;
}

export const bearerRequester = (at: TestService, name: string, token: string): Requester => ({
  name,
  async request(method, path, body, headers = {}) {
    const all = {
      authorization: `Bearer ${token}`,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    };
    const answer = await httpRequest(at.url + path, method, all, JSON.stringify(body));
    const isJson = /json/.test(answer.headers.get('content-type') ?? '') && answer.text !== '';
    return { ...answer, body: isJson ? JSON.parse(answer.text) : answer.text };
  },
});

export async function cookieRequester(
  at: TestService,
  name: string,
  token: string,
): Promise<Requester & { browser: Browser }> {
  const browser = browserAt(at.url);
  const opened = await browser.request('POST', '/v1/auth/session', { body: { token } });
  if (opened.status !== 204) throw new Error(`no session: ${JSON.stringify(opened.body)}`);
  const { csrf_token } = (await browser.request('GET', '/v1/auth/csrf')).body;
  return {
    name,
    browser,
    request: (method, path, body, headers = {}) =>
      browser.request(method, path, { body, headers: { 'x-csrf-token': csrf_token, ...headers } }),
  };
}

/** A user who was invited and accepted. */
export interface Member extends ApiClient {
  sub: string;
  email: string;
  userId: string;
}

export async function inviteMember(
  at: TestService,
  owner: ApiClient,
  role: string,
  sub: string = randomUUID(),
): Promise<Member> {
  const email = `${sub}@example.com`;
  const client = at.api(await at.token(sub, { email }));
  const invited = await owner.post('/v1/tenant/members', { email, role });
  const accepted = await client.post(`/v1/auth/invitations/${invited.body.member?.id}/accept`);
  if (accepted.status !== 200) throw new Error(JSON.stringify([invited.body, accepted.body]));
  return { ...client, sub, email, userId: (await client.get('/v1/auth/me')).body.user.id };
}

/** Creates an API key of this user. */
export async function createApiKey(client: ApiClient, more: object = {}): Promise<{ key: string; prefix: string }> {
  const created = await client.post('/v1/auth/api-keys', { name: 'a key', scopes: ['all'], ...more });
  if (created.status !== 201) throw new Error(JSON.stringify(created.body));
  return created.body;
}

/**
 * Marks the token as presented by an agent, so that it is no longer a person's. The service has no MCP edge in these
 * tests, so the identity check is called directly.
 */
export async function markAsAgentToken(at: TestService, token: string): Promise<void> {
  const answer = await at.services.authenticate(token, { via: 'mcp', requestId: randomUUID(), address: null });
  if (!answer.ok || answer.value.principal.person !== false) throw new Error('not presented');
}

export type Role = 'owner' | 'admin' | 'user' | 'viewer';

/** A service with an identity provider, a tenant with a member of each role and a lock, and a second tenant. */
export interface AccessFixture {
  service: TestService;
  issuer: TestIssuer;
  owner: Awaited<ReturnType<TestService['owner']>>;
  otherOwner: Awaited<ReturnType<TestService['owner']>>;
  member: Record<Role, Member>;
  lock: ApiResponse['body'];
  /** Another token of the same user. */
  freshToken(user: Pick<Member, 'sub' | 'email'>, more?: { scope?: string }): Promise<string>;
  /** Close code of a WebSocket, or null if it is accepted. */
  webSocket(token: string, query?: string): Promise<number | null>;
  close(): Promise<void>;
}

export async function startAccessFixture(): Promise<AccessFixture> {
  const clock = runningClock();
  const audience = 'https://twinkeep.example';
  const issuer = await startTestIssuer(clock, audience);
  const at = await startService(
    {
      OIDC_ISSUER: issuer.url,
      OIDC_AUDIENCE: audience,
      OIDC_PLATFORM_CLAIM: 'groups:operators',
      RATE_LIMITS: 'free=0',
    },
    { clock, limits: { rates: { anonymous: 0, session: 0, signIns: 0 } } },
  );
  const owner = await at.owner('ada');
  return {
    ...{ service: at, issuer, owner },
    otherOwner: await at.owner('eve'),
    member: {
      owner: await inviteMember(at, owner, 'owner'),
      admin: await inviteMember(at, owner, 'admin'),
      user: await inviteMember(at, owner, 'user'),
      viewer: await inviteMember(at, owner, 'viewer'),
    },
    lock: await register(owner, { device_type: 'smart_lock' }),
    freshToken: ({ sub, email }, more = {}) => at.token(sub, { email, ...more }),
    async webSocket(token, query = '') {
      const socket = new WebSocket(
        `${at.url.replace('http', 'ws')}/ws/state?token=${encodeURIComponent(token)}&${query}`,
      );
      const outcome = await new Promise<number | null>((resolve) => {
        socket.once('close', resolve);
        socket.once('open', () => socket.send('ping'));
        socket.once('message', () => resolve(null));
      });
      socket.terminate();
      return outcome;
    },
    async close() {
      await at.stop();
      await issuer.close();
    },
  };
}
