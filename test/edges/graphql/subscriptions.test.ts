import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { type Client, createClient } from 'graphql-ws';
import { v4, v7 } from 'uuid';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
const clients: Client[] = [];

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  mine = await makeTestTenant(service);
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.dispose();
});
afterAll(() => service.close());

interface Closed {
  code: number;
  reason: string;
}

/** A client of the graphql-ws library; `closed` records how the server closed the connection. */
function connect(
  token: string | undefined,
  params?: Record<string, unknown>,
): { client: Client; closed: Closed[]; acked: unknown[] } {
  const closed: Closed[] = [];
  const acked: unknown[] = [];
  const client = createClient({
    url: `${service.url.replace('http', 'ws')}/graphql`,
    webSocketImpl: WebSocket,
    lazy: false,
    retryAttempts: 0,
    connectionParams: params ?? (token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    onNonLazyError: () => {},
    on: {
      closed: (event) => closed.push(event as Closed),
      connected: (_, payload) => acked.push(payload ?? true),
    },
  });
  clients.push(client);
  return { client, closed, acked };
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads what an external client would read
type Received = any;

/** Subscribes, and records the results and errors. */
function listen(client: Client, query: string, variables: Record<string, unknown> = {}) {
  const notified: Received[] = [];
  const faults: Received[] = [];
  const end = client.subscribe(
    { query, variables },
    { next: (result) => notified.push(result), error: (fault) => faults.push(fault), complete: () => {} },
  );
  return { notified, faults, end };
}

/** Resolves when the service has subscribed; earlier events are not delivered. */
async function listening(kind: string): Promise<void> {
  await expect.poll(() => service.graphql.subscriberCount(mine.tenantId, kind as never)).toBeGreaterThan(0);
}

describe('a subscription', () => {
  it('sends states as they are reported, for the selected devices, with their position', async () => {
    const [one, other] = [await mine.register(), await mine.register()];
    const { client } = connect(mine.tokens.user);
    const query =
      'subscription ($ids: [ID!]) { stateChanged(deviceIds: $ids) { deviceId state timestamp device { home { homeName } } } }';
    const { notified } = listen(client, query, { ids: [one.device_id] });
    await listening('state');
    await mine.report(other.device_id, { on: false });
    await mine.report(one.device_id, { on: true });
    await mine.report(one.device_id, { on: true, brightness: 40 });
    await expect.poll(() => notified.length).toBe(2);
    expect(notified.map(({ data }) => data.stateChanged.state)).toEqual([{ on: true }, { on: true, brightness: 40 }]);
    expect(notified[0].data.stateChanged).toMatchObject({
      deviceId: one.device_id,
      timestamp: new Date(service.clock.now()).toISOString(),
      device: { home: { homeName: 'Lakeside' } },
    });
  });

  it('sends every status of a command, and pending confirmations', async () => {
    const { device_id: id } = await mine.register();
    await mine.connect(id);
    const { client } = connect(mine.tokens.user);
    const commands = listen(client, 'subscription { commandChanged { commandId status verification } }');
    const waiting = listen(client, 'subscription { confirmationChanged { status expiresAt } }');
    await listening('command');
    await listening('confirmation');
    const requested = await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' });
    await mine.acknowledge(id, requested.body.command_id, 'accepted');
    await mine.acknowledge(id, requested.body.command_id, 'succeeded');
    await expect
      .poll(() => commands.notified.map(({ data }) => data.commandChanged.status))
      .toEqual(expect.arrayContaining(['DISPATCHED', 'ACKNOWLEDGED', 'SUCCEEDED']));
    await mine.call('POST', `/device/${id}/command`, { action: 'reboot' });
    await expect
      .poll(() => waiting.notified.map(({ data }) => data.confirmationChanged.status))
      .toEqual(['AWAITING_CONFIRMATION']);
  });

  it('sends plans with their steps, and presence', async () => {
    const { device_id: id } = await mine.register();
    const { client } = connect(mine.tokens.user);
    const plans = listen(client, 'subscription { planChanged { planId status stepId stepStatus } }');
    const presence = listen(client, 'subscription { presenceChanged { deviceId online } }');
    await listening('plan');
    await listening('presence');
    const made = await mine.call('POST', '/plans', { steps: [{ id: 'on', device_id: id, action: 'turn_on' }] });
    await expect
      .poll(() => plans.notified.map(({ data }) => data.planChanged))
      .toContainEqual(expect.objectContaining({ planId: made.body.plan.id, stepId: 'on', stepStatus: 'RUNNING' }));
    await mine.connect(id);
    await mine.report(id, { on: true });
    await expect
      .poll(() => presence.notified.map(({ data }) => data.presenceChanged))
      .toContainEqual({ deviceId: id, online: true });
  });

  it('sends nothing of another tenant, and ends with its client', async () => {
    const other = await makeTestTenant(service);
    const { device_id: id } = await other.register();
    const { client } = connect(mine.tokens.user);
    const { notified, end } = listen(client, 'subscription { stateChanged { deviceId } }');
    await listening('state');
    await other.report(id, { on: true });
    const { device_id: own } = await mine.register();
    await mine.report(own, { on: true });
    await expect.poll(() => notified.length).toBe(1);
    expect(notified[0].data.stateChanged.deviceId).toBe(own);
    end();
    await expect.poll(() => service.graphql.subscriberCount(mine.tenantId, 'state')).toBe(0);
  });

  it('requires the role and the scope of its events', async () => {
    const viewer = listen(connect(mine.tokens.viewer).client, 'subscription { planChanged { planId } }');
    await expect.poll(() => viewer.faults[0]?.[0]?.extensions.code).toBe('FORBIDDEN_ROLE');
    const { body } = await mine.call('POST', '/auth/api-keys', { name: 'Homes', scopes: ['read:homes'] });
    const key = listen(
      connect(body.key).client,
      'subscription { ...F } fragment F on Subscription { stateChanged { deviceId } }',
    );
    await expect.poll(() => key.faults[0]?.[0]?.extensions.code).toBe('INSUFFICIENT_SCOPE');
    const invalid = listen(connect(mine.tokens.user).client, 'subscription { stateChanged { nowhere } }');
    await expect.poll(() => invalid.faults[0]?.[0]?.extensions.code).toBe('VALIDATION_FAILED');
  });

  it('is validated like every document', async () => {
    const { client } = connect(mine.tokens.user);
    const wrong = [
      'subscription { nothing }',
      'subscription { stateChanged { deviceId } presenceChanged { deviceId } }',
      `subscription { stateChanged { device { ${'home { rooms { '.repeat(6)} id ${'} }'.repeat(6)} } } }`,
    ];
    for (const query of wrong) {
      const { faults } = listen(client, query);
      await expect.poll(() => faults.length).toBe(1);
    }
  });
});

/** A raw connection that can send anything, with the received messages. */
async function speak(token: string) {
  const socket = new WebSocket(`${service.url.replace('http', 'ws')}/graphql`, ['graphql-transport-ws']);
  const notified: Received[] = [];
  const closed: number[] = [];
  socket.on('message', (data) => notified.push(JSON.parse(String(data))));
  socket.on('close', (code) => closed.push(code));
  const send = (...messages: object[]) => messages.forEach((one) => void socket.send(JSON.stringify(one)));
  const subscribe = (id: string, query: string) => send({ id, type: 'subscribe', payload: { query } });
  await new Promise((resolve) => socket.once('open', resolve));
  send({ type: 'connection_init', payload: { Authorization: `Bearer ${token}` } });
  await expect.poll(() => notified[0]?.type).toBe('connection_ack');
  return { socket, notified, closed, send, subscribe };
}

describe('an id that is reused before its first operation has ended', () => {
  const STATE = 'subscription { stateChanged { deviceId } }';

  it('leaves no subscription when the connection has ended', async () => {
    const { socket, send, subscribe } = await speak(mine.tokens.user);
    for (let n = 0; n < 5; n++) {
      subscribe('1', STATE);
      send({ id: '1', type: 'complete' });
    }
    subscribe('1', STATE);
    await listening('state');
    socket.close();
    await expect.poll(() => service.graphql.subscriberCount(mine.tenantId, 'state')).toBe(0);
  });

  it('still ends with the required role', async () => {
    const token = await service.member(mine.tenantId, 'user');
    const { notified, closed, send, subscribe } = await speak(token);
    subscribe('1', '{ devices(first: 200) { totalCount nodes { id } } }');
    send({ id: '1', type: 'complete' });
    subscribe('1', STATE);
    await listening('state');
    await expect.poll(() => notified.map(({ type }) => type)).toContain('complete');
    const { body } = await service.call('GET', '/v1/auth/me', { token });
    await service.updateUser(body.user.id, { role: 'viewer' });
    await expect.poll(() => closed[0]).toBe(4403);
  });
});

describe('queries and mutations', () => {
  it('use the same connection, each counted and executed with the current permissions', async () => {
    const token = await service.member(mine.tenantId, 'admin');
    const { client } = connect(token);
    const change = 'mutation { createHome(input: {homeName: "By socket"}) { __typename ... on Refused { code } } }';
    const first = listen(client, change);
    await expect.poll(() => first.notified[0]?.data.createHome.__typename).toBe('Created');
    const { body } = await service.call('GET', '/v1/auth/me', { token });
    await service.updateUser(body.user.id, { role: 'viewer' });
    const second = listen(client, change);
    await expect.poll(() => second.notified[0]?.data.createHome.code).toBe('FORBIDDEN_ROLE');
    const read = listen(client, '{ me { user { role } } }');
    await expect.poll(() => read.notified[0]?.data.me.user.role).toBe('VIEWER');
  });

  it('are refused above the rate limit of the tenant', async () => {
    const { token } = await service.owner();
    const { rateLimits } = service.services.settings as { rateLimits: Record<string, number> };
    rateLimits.free = 1;
    try {
      const { client } = connect(token);
      const [one, other] = [listen(client, '{ me { hasTenant } }'), listen(client, '{ me { hasTenant } }')];
      await expect.poll(() => one.notified.length + other.notified.length).toBe(1);
      await expect.poll(() => [...one.faults, ...other.faults][0]?.[0]?.extensions.code).toBe('RATE_LIMIT_EXCEEDED');
      const { closed, subscribe } = await speak(token);
      subscribe('1', '{ nothing }');
      await expect.poll(() => closed[0]).toBe(1013);
    } finally {
      rateLimits.free = 0;
    }
  });
});

describe('a connection', () => {
  it.each([
    ['nothing', {}, 4401],
    ['a bad token', { Authorization: 'Bearer junk' }, 4401],
    ['another scheme', { Authorization: 'Basic YTpi' }, 4401],
    ['a text that is none', { Authorization: 1 }, 4401],
  ])('with %s is closed at once', async (_, params, code) => {
    const { closed } = connect(undefined, params);
    await expect.poll(() => closed[0]?.code).toBe(code);
  });

  it('that has not signed in counts against the limit of its address until it does, and is refused beyond it', async () => {
    const unauthenticated = { perNetwork: 2, total: 10, silentMs: 3_600_000 };
    const limited = await startHttpServiceOnDatabase({ graphqlLimits: { unauthenticated } });
    const theirs = await makeTestTenant(limited);
    const url = `${limited.url.replace('http', 'ws')}/graphql`;
    const open = () => new WebSocket(url, ['graphql-transport-ws']);
    const silent = [open(), open()];
    await Promise.all(silent.map((socket) => once(socket, 'open')));
    const refused = open().on('error', () => {});
    const [, response] = (await once(refused, 'unexpected-response')) as [unknown, IncomingMessage];
    expect([response.statusCode, response.headers['retry-after']]).toEqual([503, '2']);
    for (const socket of silent) {
      socket.send(
        JSON.stringify({ type: 'connection_init', payload: { Authorization: `Bearer ${theirs.tokens.owner}` } }),
      );
      const [data] = await once(socket, 'message');
      expect(JSON.parse(String(data))).toEqual({ type: 'connection_ack' });
    }
    const next = open();
    await once(next, 'open');
    for (const socket of [...silent, next]) socket.terminate();
    await limited.close();
  });

  it('beyond the number that its credential or tenant may have is closed with 1013, until another one ends', async () => {
    const limited = await startHttpServiceOnDatabase({ webSocketQuota: { perCredential: 1, perTenant: 2 } });
    const theirs = await makeTestTenant(limited);
    const open = (token: string) => {
      const socket = new WebSocket(`${limited.url.replace('http', 'ws')}/graphql`, ['graphql-transport-ws']);
      const init = JSON.stringify({ type: 'connection_init', payload: { Authorization: `Bearer ${token}` } });
      socket.on('open', () => socket.send(init));
      return socket;
    };
    const outcomeOf = async (socket: WebSocket) => {
      const [first, reason] = await Promise.race([once(socket, 'message'), once(socket, 'close')]);
      return typeof first === 'number' ? `${first} ${reason}` : JSON.parse(String(first)).type;
    };
    const refusal = (limit: string) => `1013 RATE_LIMIT_EXCEEDED: The limit of open WebSockets ${limit}.`;
    const { owner, admin, user } = theirs.tokens;
    const first = open(owner);
    expect(await outcomeOf(first)).toBe('connection_ack');
    expect(await outcomeOf(open(owner))).toBe(refusal('of one credential is 1'));
    const second = open(admin);
    expect(await outcomeOf(second)).toBe('connection_ack');
    expect(await outcomeOf(open(user))).toBe(refusal('of one tenant is 2'));
    first.terminate();
    await expect.poll(() => limited.graphql.connections()).toBe(1);
    const third = open(user);
    expect(await outcomeOf(third)).toBe('connection_ack');
    for (const socket of [second, third]) socket.terminate();
    await limited.close();
  });

  it('of a user without a tenant, or in a suspended one, is closed with 4403', async () => {
    const nobody = connect(await service.token(v7()));
    await expect.poll(() => nobody.closed[0]?.code).toBe(4403);
    const parked = await makeTestTenant(service);
    const { closed, acked } = connect(parked.tokens.owner);
    await expect.poll(() => acked.length).toBe(1);
    const operator = await service.token(v7(), { scope: 'platform:admin' });
    await service.call('POST', `/v1/admin/tenants/${parked.tenantId}/suspend`, { token: operator, body: {} });
    await expect.poll(() => closed[0]?.code).toBe(4403);
    const again = connect(parked.tokens.owner);
    await expect.poll(() => again.closed[0]?.code).toBe(4403);
  });

  it('ends within a second of its token, key, membership or role', async () => {
    const token = await service.member(mine.tenantId, 'user');
    const out = connect(token);
    await expect.poll(() => out.acked.length).toBe(1);
    await service.call('POST', '/v1/auth/logout', { token, body: {} });
    await expect.poll(() => out.closed[0]?.code).toBe(4401);

    const { body: key } = await mine.call('POST', '/auth/api-keys', { name: 'Ends', scopes: ['all'] });
    const byKey = connect(key.key);
    await expect.poll(() => byKey.acked.length).toBe(1);
    await mine.call('POST', '/auth/api-keys/revoke', { prefix: key.prefix });
    await expect.poll(() => byKey.closed[0]?.code).toBe(4401);

    const lesser = await service.member(mine.tenantId, 'user');
    const { client, closed } = connect(lesser);
    listen(client, 'subscription { stateChanged { deviceId } }');
    await listening('state');
    const { body } = await service.call('GET', '/v1/auth/me', { token: lesser });
    await service.updateUser(body.user.id, { role: 'viewer' });
    await expect.poll(() => closed[0]?.code).toBe(4403);
  });

  it('ends when its token expires', async () => {
    const token = await service.token(v7(), { ttlS: 60 });
    const { body } = await service.call('GET', '/v1/auth/me', { token });
    await service.updateUser(body.user.id, { tenantId: mine.tenantId, role: 'user' });
    const { closed, acked } = connect(token);
    await expect.poll(() => acked.length).toBe(1);
    service.clock.advance(61_000);
    await expect.poll(() => closed[0]?.code).toBe(4401);
  });

  it('accepts a ticket once', async () => {
    const { body } = await service.call('POST', '/ws/ticket', { token: mine.tokens.user, body: {} });
    const { acked } = connect(body.ticket);
    await expect.poll(() => acked.length).toBe(1);
    const again = connect(body.ticket);
    await expect.poll(() => again.closed[0]?.code).toBe(4401);
  });

  it('with another subprotocol, an invalid message, or no first message is closed', async () => {
    const url = `${service.url.replace('http', 'ws')}/graphql`;
    const codeOf = (protocol: string[], ...messages: string[]) =>
      new Promise<number>((resolve) => {
        const socket = new WebSocket(url, protocol);
        socket.on('open', () => messages.forEach((message) => void socket.send(message)));
        socket.on('error', () => resolve(0));
        socket.on('close', resolve);
      });
    expect(await codeOf([])).toBe(4406);
    const protocol = ['graphql-transport-ws'];
    expect(await codeOf(protocol, '{"type":"connection_init","type":"ping"}')).toBe(4400);
    expect(await codeOf(protocol, '{"type":"connection_init","payload":{"a":"\\u0000"}}')).toBe(4400);
    expect(await codeOf(protocol, 'x')).toBe(4400);
    expect(await codeOf(protocol, JSON.stringify({ id: v4(), type: 'subscribe', payload: { query: '{ a }' } }))).toBe(
      4401,
    );
  });
});
