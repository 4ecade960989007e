import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { apiKeyPrefix } from '../../../src/domain/api-key.ts';
import { eventually } from '../../support/clock.ts';
import { type CallOptions, type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';
import { startTestSockets } from '../../support/state-sockets.ts';
import { SwitchableBus } from '../../support/switchable-bus.ts';

/*
 * One of several nodes, whose connection to the bus is cut. The changes are made in the store alone, as by another node.
 */
let bus: SwitchableBus;
let service: HttpService<MemoryStore>;
let owner: { token: string; userId: string; tenantId: string };
beforeEach(async () => {
  bus = new SwitchableBus();
  service = await startHttpService({ invalidations: bus });
  owner = await service.owner();
});
afterEach(() => service.close());

const homes = async (sent: CallOptions) => (await service.call('GET', '/v1/homes', sent)).status;
const IN_AN_HOUR = () => service.clock.now() + 3_600_000;

async function newKey(): Promise<string> {
  const { body } = await service.call('POST', '/v1/auth/api-keys', {
    token: owner.token,
    body: { name: 'x', scopes: ['read:devices'] },
  });
  return body.key;
}
const devices = async (key: string) => (await service.call('GET', '/v1/devices', { token: key })).status;

async function newSession(token: string): Promise<{ cookie: string; name: string }> {
  const { headers } = await service.call('POST', '/v1/auth/session', { body: { token } });
  const [cookie = ''] = headers.getSetCookie().map((text) => text.split(';')[0] ?? '');
  const secret = cookie.slice(cookie.indexOf('=') + 1);
  const found = await service.services.cookieSessions.find(secret);
  return { cookie, name: found?.name ?? '' };
}

describe('while invalidations may be missed', () => {
  it('a revoked API key is refused, others are accepted', async () => {
    const [key, other] = [await newKey(), await newKey()];
    expect([await devices(key), await devices(other)]).toEqual([200, 200]);
    bus.cut();
    await service.store.keys.revoke(apiKeyPrefix(key) ?? '', 1);
    expect([await devices(key), await devices(other)]).toEqual([401, 200]);
    await bus.restore();
    expect([await devices(key), await devices(other)]).toEqual([401, 200]);
  });

  it('a logged-out token is refused, others are accepted', async () => {
    const [token, other] = [owner.token, await service.member(owner.tenantId, 'user')];
    expect([await homes({ token }), await homes({ token: other })]).toEqual([200, 200]);
    bus.cut();
    const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    await service.store.identity.revokeToken(claims.jti, IN_AN_HOUR());
    expect([await homes({ token }), await homes({ token: other })]).toEqual([401, 200]);
    await bus.restore();
    expect([await homes({ token }), await homes({ token: other })]).toEqual([401, 200]);
  });

  it('a member has the changed role, and none after the removal', async () => {
    const token = await service.member(owner.tenantId, 'admin');
    const { id } = (await service.call('GET', '/v1/auth/me', { token })).body.user;
    const create = async () => (await service.call('POST', '/v1/homes', { token, body: { home_name: 'x' } })).status;
    expect(await create()).toBe(201);
    bus.cut();
    const user = service.store.users.get(id);
    if (user === undefined) throw new Error('no user');
    service.store.users.set(id, { ...user, role: 'viewer' });
    expect(await create()).toBe(403);
    await bus.restore();
    expect(await create()).toBe(403);
    bus.cut();
    service.store.users.delete(id);
    expect(await create()).toBe(401);
  });

  it('a token that was presented at /mcp elsewhere is not a person’s', async () => {
    const asking = { via: 'rest', requestId: '0195d9a2-7f00-7000-8000-000000000000', address: null };
    const isPerson = async () => {
      const answer = await service.identity.authenticate(owner.token, asking);
      return answer.ok && answer.value.principal.person;
    };
    expect(await isPerson()).toBe(true);
    bus.cut();
    expect(await isPerson()).toBe(true);
    const mark = vi.spyOn(service.store.identity, 'markAgentToken');
    await service.identity.authenticate(owner.token, { ...asking, via: 'mcp' });
    const [stored] = mark.mock.calls[0] ?? [];
    const other = await service.token('bea');
    expect(stored?.digest).toMatch(/^[\w-]{43}$/);
    // In a process that has not seen it there.
    const isAgentToken = vi.spyOn(service.store.identity, 'isAgentToken').mockResolvedValue(true);
    const answer = await service.identity.authenticate(other, asking);
    expect([answer.ok && answer.value.principal.person, isAgentToken.mock.calls.length]).toEqual([false, 2]);
  });

  it('a cookie session that was closed elsewhere has ended; an open one continues', async () => {
    const closed = await newSession(owner.token);
    const open = await newSession(owner.token);
    const status = async ({ cookie }: { cookie: string }) => homes({ headers: { cookie } });
    expect([await status(closed), await status(open)]).toEqual([200, 200]);
    bus.cut();
    await service.services.sealedCache.delete(`session:${closed.name}`);
    expect([await status(closed), await status(open)]).toEqual([401, 200]);
    await bus.restore();
    expect([await status(closed), await status(open)]).toEqual([401, 200]);
  });

  it('an open connection ends whose credential was revoked, and the others continue', async () => {
    const edge = await startTestSockets(service);
    try {
      const [key, token] = [await newKey(), await service.member(owner.tenantId, 'user')];
      const connect = async (credential: string) => {
        const client = await edge.connect(credential);
        client.socket.send('ping');
        await eventually(() => client.texts.pop() === 'pong');
        return client;
      };
      const [ended, kept] = [await connect(key), await connect(token)];
      bus.cut();
      await service.store.keys.revoke(apiKeyPrefix(key) ?? '', 1);
      expect((await ended.closed).code).toBe(4401);
      expect(kept.socket.readyState).toBe(kept.socket.OPEN);
      await bus.restore();
      // A gap that is over before the next check is noticed too.
      bus.cut();
      const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
      await service.store.identity.revokeToken(claims.jti, IN_AN_HOUR());
      await bus.restore();
      expect((await kept.closed).code).toBe(4401);
    } finally {
      await edge.close();
    }
  });
});

it('while the bus is current, no request reads from the store', async () => {
  const [key, session] = [await newKey(), await newSession(owner.token)];
  await devices(key);
  await homes({ headers: { cookie: session.cookie } });
  const { identity, keys } = service.store;
  const reads = [
    vi.spyOn(identity, 'user'),
    vi.spyOn(identity, 'isTokenRevoked'),
    vi.spyOn(identity, 'isAgentToken'),
    vi.spyOn(keys, 'find'),
    vi.spyOn(service.services.sealedCache, 'get'),
  ];
  expect([await devices(key), await homes({ headers: { cookie: session.cookie } })]).toEqual([200, 200]);
  expect(reads.map(({ mock }) => mock.calls.length)).toEqual([0, 0, 0, 0, 0]);
});

it('a cookie session that another node closed ends here', async () => {
  const { cookie, name } = await newSession(owner.token);
  await service.services.sealedCache.delete(`session:${name}`);
  expect(await homes({ headers: { cookie } })).toBe(200);
  bus.publish({ about: 'session', name });
  expect(await homes({ headers: { cookie } })).toBe(401);
});

it('a flag that another node changed applies here', async () => {
  await service.store.administration.setFlag('commands_disabled', true);
  expect(service.flags.current().commands_disabled).toBe(false);
  bus.publish({ about: 'flags' });
  await eventually(() => service.flags.current().commands_disabled);
});
