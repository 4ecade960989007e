import { hash, randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { externalTokenVerifier } from '../../../../src/edges/shared/oidc/external-tokens.ts';
import { makeProvider } from '../../../../src/edges/shared/oidc/provider.ts';
import { userCodeOf } from '../../../../src/services/handshakes.ts';
import { type Browser, browserAt } from '../../../support/browser.ts';
import { type HttpService, startHttpService } from '../../../support/http-service.ts';
import type { MemoryStore } from '../../../support/memory-store.ts';
import { silentLog } from '../../../support/service.ts';
import { startTestIssuer, type TestIssuer } from '../../../support/test-issuer.ts';

interface Listed {
  id: string;
  kind: string;
  client: string | null;
  address: string | null;
  derived_from: string | null;
  current: boolean;
}

let service: HttpService<MemoryStore>;
let owner: { token: string; userId: string; tenantId: string };
beforeEach(async () => {
  service = await startHttpService();
  owner = await service.owner();
  service.clock.advance(5_000);
});
afterEach(() => service.close());

const random = () => randomBytes(32).toString('base64url');
const ALL = '/v1/auth/sessions?limit=200';
const statusOf = async (token: string) => (await service.call('GET', '/v1/auth/me', { token })).status;
const sessionsOf = async (token: string, path = '/v1/auth/sessions'): Promise<Listed[]> => {
  const { status, body } = await service.call('GET', path, { token });
  expect(status).toBe(200);
  return body.sessions;
};
/** A later token of the user. */
async function tokenOf(userId: string): Promise<string> {
  service.clock.advance(2_000);
  return service.token(service.store.users.get(userId)?.sub ?? '');
}
async function member(role: 'viewer' | 'user' | 'admin') {
  const token = await service.member(owner.tenantId, role);
  const userId: string = (await service.call('GET', '/v1/auth/me', { token })).body.user.id;
  return { token, userId };
}
async function signedIn(token: string, headers: Record<string, string> = {}): Promise<Browser> {
  const browser = browserAt(service.url);
  expect((await browser.request('POST', '/v1/auth/session', { body: { token }, headers })).status).toBe(204);
  return browser;
}
const seen = async (browser: Browser) => (await browser.request('GET', '/v1/auth/me')).status;
const change = async (browser: Browser, method: string, path: string, body: object = {}) => {
  const { csrf_token } = (await browser.request('GET', '/v1/auth/csrf')).body;
  return browser.request(method, path, { body, headers: { 'x-csrf-token': csrf_token } });
};
async function commandLineOf(browser: Browser): Promise<string> {
  const [code, verifier] = [random(), random()];
  await fetch(`${service.url}/v1/auth/cli?code=${code}&challenge=${hash('sha256', verifier, 'base64url')}`);
  const body = { code, user_code: userCodeOf(code) };
  expect((await change(browser, 'POST', '/v1/auth/cli/approve', body)).status).toBe(200);
  const headers = { 'x-handshake-verifier': verifier };
  return (await service.call('GET', `/v1/auth/handshake/${code}`, { headers })).body.access_token;
}

describe('the list of sessions', () => {
  it('shows the tokens, browsers and command lines of the caller, and what each was derived from', async () => {
    const browser = await signedIn(owner.token, { 'user-agent': 'Test browser' });
    service.clock.advance(1_000);
    const commandLine = await commandLineOf(browser);
    const [third, second, first] = await sessionsOf(commandLine);
    expect(first).toMatchObject({ kind: 'token', client: 'node', derived_from: null, current: false });
    expect(second).toMatchObject({ kind: 'browser', client: 'Test browser', derived_from: first?.id });
    expect(third).toMatchObject({ kind: 'command_line', derived_from: second?.id, current: true });
    expect([first, second, third].map((one) => one?.address)).toEqual(['127.0.0.1', '127.0.0.1', '127.0.0.1']);
    const { body } = await browser.request('GET', '/v1/auth/sessions');
    expect(body.sessions.map(({ current }: Listed) => current)).toEqual([false, true, false]);
  });

  it('shows neither sessions of others, nor those that ended or expired', async () => {
    const browser = await signedIn(owner.token);
    const other = await signedIn(owner.token);
    await member('admin');
    expect(await sessionsOf(owner.token)).toHaveLength(3);
    await change(other, 'POST', '/v1/auth/logout');
    expect(await sessionsOf(owner.token)).toHaveLength(2);
    await signedIn(owner.token);
    // Signs in again with the same browser.
    await browser.request('POST', '/v1/auth/session', { body: { token: owner.token } });
    expect(await sessionsOf(owner.token)).toHaveLength(3);
    service.clock.advance(3_595_000);
    expect(await sessionsOf(await tokenOf(owner.userId))).toHaveLength(1);
  });

  it('has pages', async () => {
    for (let n = 0; n < 3; n++) await signedIn(owner.token);
    const first = (await service.call('GET', '/v1/auth/sessions?limit=2', owner)).body;
    const next = (await service.call('GET', `/v1/auth/sessions?limit=2&cursor=${first.next_cursor}`, owner)).body;
    expect(new Set([...first.sessions, ...next.sessions].map(({ id }: Listed) => id)).size).toBe(4);
    expect(next.next_cursor).toBeNull();
  });

  it('shows the last use to the minute', async () => {
    const at = async () => (await service.call('GET', '/v1/auth/sessions', owner)).body.sessions[0].last_used_at;
    const before = await at();
    service.clock.advance(50_000);
    const soon = await at();
    service.clock.advance(6_000);
    const later = await at();
    expect([soon === before, Date.parse(later) > Date.parse(before)]).toEqual([true, true]);
  });

  it('is for persons, not for API keys and agents', async () => {
    const { key } = (
      await service.call('POST', '/v1/auth/api-keys', { ...owner, body: { name: 'x', scopes: ['all'] } })
    ).body;
    for (const [method, path] of [
      ['GET', '/v1/auth/sessions'],
      ['DELETE', '/v1/auth/sessions'],
      ['GET', `/v1/tenant/members/${owner.userId}/sessions`],
      ['DELETE', `/v1/tenant/members/${owner.userId}/sessions`],
    ] as const) {
      expect((await service.call(method, path, { token: key })).body.code).toBe('FORBIDDEN');
    }
    expect(await statusOf(owner.token)).toBe(200);
  });

  it('has at most 100 sessions: with another one the oldest ends, and not the one that others were made from', async () => {
    const browsers: Browser[] = [];
    for (let n = 0; n < 99; n++) {
      service.clock.advance(1);
      browsers.push(await signedIn(owner.token));
    }
    expect(await sessionsOf(owner.token, ALL)).toHaveLength(100);
    const [first, second] = [browsers[0], browsers[1]] as [Browser, Browser];
    const commandLine = await commandLineOf(first);
    service.clock.advance(1);
    // The second browser is now the oldest that nothing was made from.
    expect(await sessionsOf(commandLine, ALL)).toHaveLength(100);
    expect([await seen(first), await seen(second), await statusOf(commandLine)]).toEqual([200, 401, 200]);
    service.clock.advance(1);
    await signedIn(owner.token);
    await service.services.userSessions.flush();
    const all = await Promise.all(browsers.map(seen));
    expect(all.map((status, n) => (status === 401 ? n : null)).filter((n) => n !== null)).toEqual([1, 2]);
    expect(await statusOf(owner.token)).toBe(200);
    expect(service.services.userSessions.sizes().user_sessions_to_count).toBe(0);
  });

  it('keeps its limit after the store did not answer', async () => {
    for (let n = 0; n < 100; n++) {
      service.clock.advance(1);
      await signedIn(owner.token);
    }
    service.store.failCalls = () => {
      throw new Error('the store is gone');
    };
    await service.services.userSessions.flush();
    service.store.failCalls = null;
    expect(service.services.userSessions.sizes().user_sessions_to_count).toBe(1);
    expect(await sessionsOf(owner.token, ALL)).toHaveLength(100);
  });

  it('is stored by the next use after the store did not answer', async () => {
    service.store.failCalls = () => {
      throw new Error('the store is gone');
    };
    await service.services.userSessions.flush();
    service.store.failCalls = null;
    expect(await sessionsOf(owner.token)).toHaveLength(1);
  });
});

describe('tokens of an identity provider', () => {
  const AUDIENCE = 'https://api.example';
  let issuer: TestIssuer;
  beforeEach(async () => {
    const clock = { now: () => service.clock.now() };
    issuer = await startTestIssuer(clock, AUDIENCE);
    const provider = makeProvider({ issuer: issuer.url, jwksUri: null }, { clock, log: silentLog });
    const verifiers = [
      externalTokenVerifier(
        provider,
        { audience: AUDIENCE, platformClaim: null, scopeClaim: { required: false, prefix: '' } },
        clock,
      ),
    ];
    await service.close();
    service = await startHttpService({ verifiers });
  });
  afterEach(() => issuer.close());

  it('with a fraction in `iat` are listed and ended like others', async () => {
    const iat = Math.floor(service.clock.now() / 1000) - 10 + 0.123_456;
    const token = await issuer.token({ iat });
    expect(await sessionsOf(token)).toMatchObject([
      { kind: 'token', signed_in_at: new Date(Math.floor(iat * 1000)).toISOString() },
    ]);
    expect((await service.call('DELETE', '/v1/auth/sessions', { token })).status).toBe(204);
    expect(await statusOf(token)).toBe(401);
  });

  it('that a program requested for itself are not sessions, and end by signing out everywhere', async () => {
    const iat = Math.floor(service.clock.now() / 1000) - 10;
    const program = await issuer.token({ iat, gty: 'client-credentials' });
    expect(await statusOf(program)).toBe(200);
    const person = await issuer.token({ iat });
    expect(await sessionsOf(person)).toMatchObject([{ kind: 'token', current: true }]);
    expect((await service.call('DELETE', '/v1/auth/sessions', { token: person })).status).toBe(204);
    expect([await statusOf(program), await statusOf(person)]).toEqual([401, 401]);
  });

  it('with an `iat` ahead of the service are ended by signing out everywhere, also where they are verified later', async () => {
    const token = await issuer.token({ iat: Math.floor(service.clock.now() / 1000) + 20 });
    expect((await service.call('DELETE', '/v1/auth/sessions', { token })).status).toBe(204);
    expect(await statusOf(token)).toBe(401);
    const [recorded] = [...service.store.revoked.keys()];
    expect(recorded).toMatch(/^external:/);
  });
});

it('a session that the store refuses does not keep others from being recorded', async () => {
  const other = await service.token('grace');
  const { userSessions } = service.services;
  const refused = { id: 'refused', expiresAt: service.clock.now() + 60_000, signedInAt: 0.5 };
  userSessions.recordUse(owner.userId, refused, {});
  expect(await sessionsOf(other)).toHaveLength(1);
  expect(await sessionsOf(owner.token)).toHaveLength(1);
  expect(userSessions.sizes().user_session_uses).toBe(0);
});

describe('ending one session', () => {
  it('ends it and what was derived from it, and nothing else', async () => {
    const [browser, other] = [await signedIn(owner.token), await signedIn(owner.token)];
    const commandLine = await commandLineOf(browser);
    const current = (await browser.request('GET', '/v1/auth/sessions')).body.sessions.find(
      (one: Listed) => one.current,
    );
    expect((await service.call('DELETE', `/v1/auth/sessions/${current.id}`, owner)).status).toBe(204);
    expect([await seen(browser), await statusOf(commandLine)]).toEqual([401, 401]);
    expect([await seen(other), await statusOf(owner.token)]).toEqual([200, 200]);
    expect((await service.call('DELETE', `/v1/auth/sessions/${current.id}`, owner)).body.code).toBe('NOT_FOUND');
  });

  it('that is the browser’s own clears its cookies', async () => {
    const browser = await signedIn(owner.token);
    const current = (await browser.request('GET', '/v1/auth/sessions')).body.sessions.find(
      (one: Listed) => one.current,
    );
    expect((await change(browser, 'DELETE', `/v1/auth/sessions/${current.id}`)).status).toBe(204);
    expect([browser.cookies.size, await seen(browser)]).toEqual([0, 401]);
  });

  it('of a member needs an admin of at least the member’s role, in the same tenant', async () => {
    const [user, admin] = [await member('user'), await member('admin')];
    const outsider = await service.owner('Elsewhere');
    const idOf = async ({ token }: { token: string }) => (await sessionsOf(token))[0]?.id;
    const [ofUser, ofOwner] = [await idOf(user), await idOf(owner)];
    const end = async (id: string | undefined, token: string) => {
      const { status, body } = await service.call('DELETE', `/v1/auth/sessions/${id}`, { token });
      return status === 204 ? status : body.code;
    };
    expect(await end(ofUser, outsider.token)).toBe('NOT_FOUND');
    expect(await end(ofOwner, user.token)).toBe('NOT_FOUND');
    expect(await end(ofUser, await service.token('no-tenant'))).toBe('NOT_FOUND');
    expect(await end(ofOwner, admin.token)).toBe('FORBIDDEN_ROLE');
    expect(await end(ofUser, admin.token)).toBe(204);
    expect([await statusOf(user.token), await statusOf(owner.token)]).toEqual([401, 200]);
  });
});

describe('signing out everywhere', () => {
  it('ends every session and token of earlier sign-ins, also those that were never used', async () => {
    const browser = await signedIn(owner.token);
    const commandLine = await commandLineOf(browser);
    const link = (await service.call('POST', '/v1/auth/link', { ...owner, body: {} })).body.url.split('#sign-in=')[1];
    const unused = await tokenOf(owner.userId);
    service.clock.advance(2_000);
    expect((await service.call('DELETE', '/v1/auth/sessions', owner)).status).toBe(204);
    for (const token of [owner.token, commandLine, unused]) expect(await statusOf(token)).toBe(401);
    expect(await seen(browser)).toBe(401);
    const opened = await browserAt(service.url).request('POST', '/v1/auth/session', { body: { token: link } });
    expect(opened.status).toBe(401);
    expect(await sessionsOf(await tokenOf(owner.userId))).toHaveLength(1);
  });

  it('leaves API keys and other members signed in', async () => {
    const { key } = (
      await service.call('POST', '/v1/auth/api-keys', { ...owner, body: { name: 'x', scopes: ['all'] } })
    ).body;
    const user = await member('user');
    await service.call('DELETE', '/v1/auth/sessions', owner);
    expect([await statusOf(key), await statusOf(user.token)]).toEqual([200, 200]);
  });

  it('ends a token whose sign-in is later by the clock of its issuer', async () => {
    const ahead = await service.token(service.store.users.get(owner.userId)?.sub ?? '', {
      signedInAt: service.clock.now() + 20_000,
    });
    expect(await statusOf(ahead)).toBe(200);
    await service.call('DELETE', '/v1/auth/sessions', owner);
    expect(await statusOf(ahead)).toBe(401);
  });

  it('clears the cookies of the browser', async () => {
    const browser = await signedIn(owner.token);
    expect((await change(browser, 'DELETE', '/v1/auth/sessions')).status).toBe(204);
    expect(browser.cookies.size).toBe(0);
  });

  it('returns no token to a command line that was approved before', async () => {
    const [code, verifier] = [random(), random()];
    await fetch(`${service.url}/v1/auth/cli?code=${code}&challenge=${hash('sha256', verifier, 'base64url')}`);
    const body = { code, user_code: userCodeOf(code) };
    await service.call('POST', '/v1/auth/cli/approve', { ...owner, body });
    await service.call('DELETE', '/v1/auth/sessions', owner);
    const headers = { 'x-handshake-verifier': verifier };
    expect((await service.call('GET', `/v1/auth/handshake/${code}`, { headers })).body.code).toBe('GONE');
  });

  it('does an admin for members of at most that role, and it is audited', async () => {
    const [user, admin] = [await member('user'), await member('admin')];
    const path = (userId: string) => `/v1/tenant/members/${userId}/sessions`;
    expect(await sessionsOf(admin.token, path(user.userId))).toMatchObject([{ kind: 'token', derived_from: null }]);
    expect((await service.call('DELETE', path(owner.userId), admin)).body.code).toBe('FORBIDDEN_ROLE');
    expect((await service.call('DELETE', path(admin.userId), user)).body.code).toBe('FORBIDDEN_ROLE');
    const outsider = await service.owner('Elsewhere');
    expect((await service.call('DELETE', path(user.userId), outsider)).body.code).toBe('NOT_FOUND');
    expect((await service.call('GET', path(user.userId), outsider)).body.code).toBe('NOT_FOUND');
    expect((await service.call('DELETE', path(user.userId), admin)).status).toBe(204);
    expect([await statusOf(user.token), await statusOf(admin.token)]).toEqual([401, 200]);
    const { entries } = (await service.call('GET', '/v1/audit', owner)).body;
    const about = { action: 'endMemberSessions', by: admin.userId };
    expect(entries).toContainEqual(
      expect.objectContaining({ ...about, subject: `member:${user.userId}`, outcome: 'done' }),
    );
    expect(entries).toContainEqual(
      expect.objectContaining({ ...about, subject: `member:${owner.userId}`, outcome: 'FORBIDDEN_ROLE' }),
    );
  });

  it('works during maintenance and in a suspended tenant', async () => {
    await service.flags.set('maintenance_mode', true);
    expect((await service.call('DELETE', '/v1/auth/sessions', owner)).status).toBe(204);
  });
});
