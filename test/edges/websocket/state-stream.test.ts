import { v7 } from 'uuid';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { VolatileOutput } from '../../../src/machines/outputs.ts';
import { signToken } from '../../../src/services/tokens.ts';
import { browserAt } from '../../support/browser.ts';
import { eventually } from '../../support/clock.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';
import { startTestSockets, type TestSockets } from '../../support/state-sockets.ts';

let service: HttpService<MemoryStore>;
let edge: TestSockets;
let owner: { token: string; userId: string; tenantId: string };
beforeAll(async () => {
  service = await startHttpService();
  edge = await startTestSockets(service);
  owner = await service.owner();
});
afterAll(async () => {
  await edge.close();
  await service.close();
});

const state = (deviceId: string, brightness: number, tenantId = owner.tenantId): VolatileOutput => ({
  type: 'device.state',
  ...{ tenantId, deviceId, state: { brightness }, stateVersion: brightness, at: 1_767_225_600_000 + brightness },
  ...{ report: { brightness }, deviceAt: 1_767_225_500_000 + brightness, sequence: brightness },
});
const presence = (deviceId: string, online: boolean): VolatileOutput => ({
  type: 'device.presence',
  ...{ tenantId: owner.tenantId, deviceId, online, at: 1_767_225_600_000 },
});
const command = (deviceId: string, commandId: string): VolatileOutput => ({
  type: 'command.changed',
  ...{ tenantId: owner.tenantId, deviceId, commandId, status: 'acknowledged', verification: 'pending', at: 7 },
});
/** An admitted client: before its admission a ping is not answered. */
async function listening(token: string | null, query = '') {
  const client = await edge.connect(token, query);
  client.socket.send('ping');
  await eventually(() => client.texts.pop() === 'pong');
  return client;
}

describe('a client with a valid token', () => {
  it('receives the whole reported state of its devices', async () => {
    const client = await listening(owner.token);
    const deviceId = v7();
    edge.emit(state(deviceId, 40));
    expect(await client.waitForMessages(1)).toEqual([
      { type: 'state_update', device_id: deviceId, state: { brightness: 40 }, timestamp: 1_767_225_600_040 },
    ]);
    client.socket.close();
    expect((await client.closed).code).toBe(1005);
  });

  it('receives what was reported, with the time of the device, if it subscribed to reports', async () => {
    const client = await listening(owner.token, 'events=report');
    const deviceId = v7();
    edge.emit({ ...state(deviceId, 40), report: { brightness: 40, name: null } } as VolatileOutput);
    const times = { device_timestamp: 1_767_225_500_040, timestamp: 1_767_225_600_040 };
    expect(await client.waitForMessages(1)).toEqual([
      {
        ...{ type: 'report_update', device_id: deviceId, report: { brightness: 40, name: null } },
        ...{ sequence_number: 40, ...times },
      },
    ]);
  });

  it('receives every update in order, for any number at once', async () => {
    const client = await listening(owner.token);
    const ids = [v7(), v7(), v7()];
    for (let n = 1; n <= 900; n++) edge.emit(state(ids[n % 3] as string, n));
    const received = await client.waitForMessages(900);
    expect(received.map((message) => (message.state as { brightness: number }).brightness)).toEqual(
      Array.from({ length: 900 }, (_, n) => n + 1),
    );
  });

  it('receives texts of every length completely', async () => {
    const client = await listening(owner.token);
    const texts = [0, 1, 40, 125, 126, 60_000, 65_400, 65_536, 70_000, 200_000].map((length) => 'ä'.repeat(length));
    texts.forEach((text, n) => {
      edge.emit({ ...state(v7(), n + 1), state: { text } } as VolatileOutput);
    });
    const received = await client.waitForMessages(texts.length);
    expect(received.map((message) => (message.state as { text: string }).text.length)).toEqual(
      texts.map((t) => t.length),
    );
    expect(received.at(-1)?.state).toEqual({ text: texts.at(-1) });
  });

  it('receives nothing of another tenant, for any filter', async () => {
    const other = await service.owner();
    const secret = v7();
    const mine = v7();
    const all = await listening(owner.token, 'events=state,presence,command');
    const nosy = await listening(owner.token, `device_id=${secret}&device_id=${mine}`);
    edge.emit(state(secret, 1, other.tenantId));
    edge.emit(state(mine, 2));
    expect((await nosy.waitForMessages(1)).map(({ device_id }) => device_id)).toEqual([mine]);
    expect((await all.waitForMessages(1)).map(({ device_id }) => device_id)).toEqual([mine]);
  });

  it('gets pong for the text ping, and no answer to other texts', async () => {
    const client = await listening(owner.token);
    client.socket.send('hello');
    client.socket.send(Buffer.from('ping'));
    client.socket.send('{"type":"subscribe"}');
    client.socket.send('ping');
    await eventually(() => client.texts.length > 0);
    expect(client.texts).toEqual(['pong']);
    const ponged = new Promise<string>((resolve) => client.socket.once('pong', (data) => resolve(String(data))));
    client.socket.ping('x');
    expect(await ponged).toBe('x');
  });

  it('is disconnected for a message that is too large or too frequent', async () => {
    const large = await listening(owner.token);
    large.socket.send('x'.repeat(2_000));
    expect((await large.closed).code).toBe(1009);
    const flooding = await listening(owner.token);
    for (let n = 0; n < 5_000; n++) flooding.socket.send('ping');
    expect((await flooding.closed).code).toBe(1008);
  });
});

describe('events', () => {
  it('are an exact list of kinds', async () => {
    const deviceId = v7();
    const commandId = v7();
    const both = await listening(owner.token, 'events=presence,command');
    const one = await listening(owner.token, 'events=presence');
    edge.emit(state(deviceId, 1));
    edge.emit(command(deviceId, commandId));
    edge.emit(presence(deviceId, true));
    expect(await both.waitForMessages(2)).toEqual([
      {
        type: 'command_update',
        command_id: commandId,
        device_id: deviceId,
        status: 'acknowledged',
        verification: 'pending',
        timestamp: 7,
      },
      { type: 'presence_update', device_id: deviceId, online: true, timestamp: 1_767_225_600_000 },
    ]);
    expect((await one.waitForMessages(1)).map(({ type }) => type)).toEqual(['presence_update']);
  });

  it('can be repeated and given as several parameters', async () => {
    const client = await listening(owner.token, 'events=state,state&events=presence');
    const deviceId = v7();
    edge.emit(state(deviceId, 1));
    edge.emit(presence(deviceId, false));
    expect((await client.waitForMessages(2)).map(({ type }) => type)).toEqual(['state_update', 'presence_update']);
  });

  it.each([
    'events=weather',
    'events=state,',
    'events=',
    'events=State',
    'device_id=lamp',
    'device_id=',
    'snapshot=yes',
  ])('with an invalid filter close with 4400: %s', async (query) => {
    const client = await edge.connect(owner.token, query);
    const { code, reason } = await client.closed;
    expect(code).toBe(4400);
    expect(reason).toMatch(/^VALIDATION_FAILED: /);
  });

  it('of one device are those that match the filter', async () => {
    const [one, two, three] = [v7(), v7(), v7()];
    const client = await listening(owner.token, `events=state,command&device_id=${one.toUpperCase()}&device_id=${two}`);
    for (const id of [three, two, one]) edge.emit(state(id, 5));
    edge.emit(command(three, v7()));
    edge.emit(command(one, v7()));
    expect((await client.waitForMessages(3)).map(({ device_id }) => device_id)).toEqual([two, one, one]);
  });
});

describe('a credential', () => {
  it.each([
    ['none', async () => null],
    ['an empty one', async () => ''],
    ['a text', async () => 'nonsense'],
    [
      'an expired token',
      async () => signToken(service.key, { sub: 'a', jti: v7(), ttlS: 1 }, service.clock.now() - 60_000),
    ],
    [
      'an unsigned token',
      async () => {
        const [, payload] = owner.token.split('.');
        return `${Buffer.from('{"alg":"none"}').toString('base64url')}.${payload}.`;
      },
    ],
    ['an unknown ticket', async () => `ws_${'A'.repeat(43)}`],
    ['a malformed ticket', async () => 'ws_'],
  ])('that is invalid closes with 4401: %s', async (_, make) => {
    const client = await edge.connect(await make(), 'events=weather');
    expect((await client.closed).code).toBe(4401);
    expect(client.texts).toEqual([]);
  });

  it('that expires closes with 4401 within a second', async () => {
    const token = await service.token('someone-else');
    await service.call('POST', '/v1/tenant/register', { token, body: { tenant_name: 'Short' } });
    const short = await service.token('someone-else', { ttlS: 120 });
    const client = await listening(short);
    const shorter = await listening(await service.token('someone-else', { ttlS: 118 }));
    service.clock.advance(119_000);
    // Expired connections have been checked.
    expect((await shorter.closed).code).toBe(4401);
    expect(client.socket.readyState).toBe(client.socket.OPEN);
    service.clock.advance(1_000);
    expect((await client.closed).code).toBe(4401);
  });

  it('that is logged out closes with 4401', async () => {
    const token = await service.member(owner.tenantId, 'user');
    const client = await listening(token);
    expect((await service.call('POST', '/v1/auth/logout', { token })).status).toBe(200);
    const { code, reason } = await client.closed;
    expect([code, reason]).toEqual([4401, 'UNAUTHENTICATED: the credential was revoked']);
    expect((await (await edge.connect(token)).closed).code).toBe(4401);
  });

  it('of a viewer, or of a user without a tenant, closes with 4403', async () => {
    const viewer = await edge.connect(await service.member(owner.tenantId, 'viewer'));
    expect(await viewer.closed).toEqual({ code: 4403, reason: 'FORBIDDEN_ROLE: state needs the role user' });
    const nobody = await edge.connect(await service.token('nobody'));
    expect(await nobody.closed).toEqual({
      code: 4403,
      reason: 'TENANT_REQUIRED: you are not a member of a tenant; register one first',
    });
  });

  it('without the scopes of a kind closes with 4403', async () => {
    const scoped = await signToken(
      service.key,
      { sub: 'scoped', jti: v7(), scope: 'read:devices' },
      service.clock.now(),
    );
    await service.call('GET', '/v1/auth/me', { token: scoped });
    const user = [...service.store.users.values()].find(({ sub }) => sub === 'scoped');
    if (user === undefined) throw new Error('no user');
    service.store.users.set(user.id, { ...user, tenantId: owner.tenantId, role: 'admin' });
    service.services.users.invalidate(user.id);
    const client = await listening(scoped, 'events=state,presence');
    for (const kind of ['command', 'confirmation']) {
      expect((await (await edge.connect(scoped, `events=state,${kind}`)).closed).code).toBe(4403);
    }
    expect(client.socket.readyState).toBe(client.socket.OPEN);
  });

  it('whose user lost the role or the tenant closes with 4403, and a deleted user with 4401', async () => {
    const change = async (changed: object | null) => {
      const token = await service.member(owner.tenantId, 'user');
      const me = await service.call('GET', '/v1/auth/me', { token });
      const client = await listening(token);
      const user = service.store.users.get(me.body.user.id);
      if (user === undefined) throw new Error('no user');
      if (changed === null) service.store.users.delete(user.id);
      else service.store.users.set(user.id, { ...user, ...changed });
      service.services.users.invalidate(user.id);
      return (await client.closed).code;
    };
    expect(await change({ role: 'viewer' })).toBe(4403);
    expect(await change({ tenantId: null, role: 'none' })).toBe(4403);
    expect(await change({ tenantId: v7() })).toBe(4403);
    expect(await change(null)).toBe(4401);
  });

  it('stays valid when its user gains a role', async () => {
    const token = await service.member(owner.tenantId, 'user');
    const { body } = await service.call('GET', '/v1/auth/me', { token });
    const client = await listening(token);
    const user = service.store.users.get(body.user.id);
    if (user === undefined) throw new Error('no user');
    service.store.users.set(user.id, { ...user, role: 'admin' });
    service.services.users.invalidate(user.id);
    client.socket.send('ping');
    await eventually(() => client.texts.includes('pong'));
    expect(client.socket.readyState).toBe(client.socket.OPEN);
  });

  it('is never in a log or visible to later handlers of the request', async () => {
    const seen: string[] = [];
    const look = (incoming: { url?: string }) => seen.push(incoming.url ?? '');
    service.server.on('upgrade', look);
    const client = await listening(owner.token, 'events=state');
    service.server.off('upgrade', look);
    expect(seen).toEqual(['/ws/state']);
    client.socket.terminate();
  });
});

describe('a suspended tenant', () => {
  it('loses its connections with 4403 and gets new ones when it is resumed', async () => {
    const other = await service.owner();
    const client = await listening(other.token);
    const ref = { kind: 'tenant', id: other.tenantId } as const;
    await service.runtime.actors.send(ref, { type: 'suspend', at: service.clock.now() });
    expect(await client.closed).toEqual({ code: 4403, reason: 'TENANT_SUSPENDED: the tenant is suspended' });
    expect((await (await edge.connect(other.token)).closed).code).toBe(4403);
    await service.runtime.actors.send(ref, { type: 'resume', at: service.clock.now() });
    const again = await listening(other.token);
    expect(again.socket.readyState).toBe(again.socket.OPEN);
  });
});

describe('a ticket', () => {
  const ticketOf = async (token: string) => service.call('POST', '/ws/ticket', { token });

  it('opens one connection', async () => {
    const { status, body } = await ticketOf(owner.token);
    expect(status).toBe(201);
    expect(body).toEqual({ ticket: expect.stringMatching(/^ws_[A-Za-z0-9_-]{43}$/), expires_in: 30 });
    const client = await listening(body.ticket);
    const deviceId = v7();
    edge.emit(state(deviceId, 3));
    expect((await client.waitForMessages(1))[0]?.device_id).toBe(deviceId);
    expect((await (await edge.connect(body.ticket)).closed).code).toBe(4401);
  });

  it('expires after 30 s', async () => {
    const { body } = await ticketOf(owner.token);
    service.clock.advance(30_000);
    expect((await (await edge.connect(body.ticket)).closed).code).toBe(4401);
  });

  it('ends with the token that created it, and so does its connection', async () => {
    const token = await service.member(owner.tenantId, 'user');
    const [used, unused] = [await ticketOf(token), await ticketOf(token)];
    const client = await listening(used.body.ticket);
    await service.call('POST', '/v1/auth/logout', { token });
    expect((await client.closed).code).toBe(4401);
    expect((await (await edge.connect(unused.body.ticket)).closed).code).toBe(4401);
  });

  it('of a browser ends with its session or the token that opened that, and so does its connection', async () => {
    const token = await service.member(owner.tenantId, 'user');
    const connected = async () => {
      const browser = browserAt(service.url);
      await browser.request('POST', '/v1/auth/session', { body: { token } });
      const headers = { 'x-csrf-token': (await browser.request('GET', '/v1/auth/csrf')).body.csrf_token };
      const { ticket } = (await browser.request('POST', '/ws/ticket', { headers })).body;
      return { client: await listening(ticket), logOut: () => browser.request('POST', '/v1/auth/logout', { headers }) };
    };
    const [first, second] = [await connected(), await connected()];
    await first.logOut();
    expect((await first.client.closed).code).toBe(4401);
    expect(second.client.socket.readyState).toBe(second.client.socket.OPEN);
    await service.call('POST', '/v1/auth/logout', { token });
    expect((await second.client.closed).code).toBe(4401);
  });

  it('requires the role user, and is issued at the root only', async () => {
    const viewer = await service.member(owner.tenantId, 'viewer');
    expect((await ticketOf(viewer)).body.code).toBe('FORBIDDEN_ROLE');
    expect((await service.call('POST', '/v1/ws/ticket', { token: owner.token })).status).toBe(404);
    expect((await service.call('POST', '/ws/ticket')).status).toBe(401);
  });

  it('is not a bearer token', async () => {
    const { body } = await ticketOf(owner.token);
    expect((await service.call('GET', '/v1/homes', { token: body.ticket })).status).toBe(401);
  });
});
