import { v7 } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../support/clock.ts';
import type { HttpService } from '../../support/http-service.ts';
import { startTestSockets, type TestSockets } from '../../support/state-sockets.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let edge: TestSockets;
let mine: TestTenant;
let operator: string;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  operator = await service.token(v7(), { scope: 'platform:admin' });
});
beforeEach(async () => {
  edge = await startTestSockets(service);
  mine = await makeTestTenant(service);
});
afterEach(() => edge.close());
afterAll(() => service.close());

const connect = (token: string | null, query = '') => edge.connect(token, query, '/ws/actors');
async function listening(token: string, query = '') {
  const client = await connect(token, query);
  client.socket.send('ping');
  await eventually(() => client.texts.pop() === 'pong');
  return client;
}
const device = async () => (await mine.register({ device_type: 'smart_light' })).device_id;
/** Updates received before the registration of a marker device. */
async function receivedUntilMark(client: Awaited<ReturnType<typeof listening>>) {
  const mark = await device();
  const received = await eventually(() => (client.messages.some(({ id }) => id === mark) ? client.messages : null));
  return received.filter(({ id }) => id !== mark);
}

describe('an administrator', () => {
  it('receives transitions of actors, and actions of users on them', async () => {
    const client = await listening(mine.tokens.admin);
    const id = await device();
    await mine.report(id, { on: true });
    await mine.call('PATCH', `/devices/${id}`, { name: 'Lamp' });
    const { body } = await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' });
    const received = await client.waitForMessages(4);
    const one = 'administration.active.one_key,link';
    expect(received).toEqual([
      {
        ...{ type: 'actor_transition', kind: 'device', id, from: null, to: `${one}.offline`, event: 'register' },
        at: service.clock.now(),
      },
      expect.objectContaining({ id, from: `${one}.offline`, to: `${one}.online`, event: 'state.reported' }),
      expect.objectContaining({ id, from: `${one}.online`, to: `${one}.online`, event: 'patch' }),
      expect.objectContaining({ kind: 'command', id: body.command_id, from: null, event: 'request' }),
    ]);
  });

  it('receives nothing of telemetry, of another tenant, or of refused events', async () => {
    const id = await device();
    await mine.report(id, { n: 0 });
    const other = await makeTestTenant(service);
    const client = await listening(mine.tokens.admin);
    for (let n = 1; n <= 20; n++) await mine.report(id, { n });
    await mine.send(id, { type: 'heartbeat.received' });
    await mine.call('POST', `/device/${id}/reinstate`, { reason: 'no' });
    await other.register();
    expect(await receivedUntilMark(client)).toEqual([]);
  });

  it('can select kinds', async () => {
    const commands = await listening(mine.tokens.admin, 'kind=command,tenant');
    const all = await listening(mine.tokens.admin);
    const id = await device();
    await mine.call('POST', `/device/${id}/command`, { action: 'turn_on' });
    await all.waitForMessages(2);
    expect((await commands.waitForMessages(1)).map(({ kind }) => kind)).toEqual(['command']);
  });

  it('receives a timer with the delay that elapsed', async () => {
    const id = await device();
    const { body } = await mine.call('POST', `/device/${id}/command`, { action: 'turn_on', ttl_s: 5 });
    const client = await listening(mine.tokens.owner);
    service.clock.advance(5_000);
    await service.runtime.timers.tick();
    expect(await client.waitForMessages(1)).toMatchObject([{ id: body.command_id, event: 'after ttl over' }]);
  });

  it('can connect with a ticket, which keeps scopes and role', async () => {
    const ticket = (await service.call('POST', '/ws/ticket', { token: mine.tokens.admin, body: {} })).body.ticket;
    const client = await listening(ticket);
    await device();
    expect(await client.waitForMessages(1)).toMatchObject([{ event: 'register' }]);
    expect((await (await connect(ticket)).closed).code).toBe(4401);
  });
});

describe('a client without permission', () => {
  it.each([
    ['a client without a credential', async () => null, '', 4401],
    ['a bad token', async () => 'junk', '', 4401],
    ['a user', async () => mine.tokens.user, '', 4403],
    ['a person without a tenant', () => service.token(v7()), '', 4403],
    ['an owner with a tenant parameter', async () => mine.tokens.owner, `tenant_id=${v7()}`, 4403],
    ['an operator without a tenant parameter', async () => operator, '', 4403],
    ['an operator with an unknown tenant', async () => operator, `tenant_id=${v7()}`, 4400],
    ['an owner with an unknown kind', async () => mine.tokens.owner, 'kind=lamp', 4400],
    ['an owner with an invalid tenant id', async () => mine.tokens.owner, 'tenant_id=x', 4400],
  ])('%s is disconnected', async (_, token, query, code) => {
    expect((await (await connect(await token(), query)).closed).code).toBe(code);
  });

  it('a key without the scope is disconnected, one with it receives transitions', async () => {
    const key = async (scopes: string[]) =>
      (await mine.call('POST', '/auth/api-keys', { name: 'k', scopes })).body.key as string;
    expect((await (await connect(await key(['read:devices']))).closed).code).toBe(4403);
    const client = await listening(await key(['read:actors']));
    await device();
    expect(await client.waitForMessages(1)).toMatchObject([{ event: 'register' }]);
  });
});

describe('a connected client', () => {
  it('is disconnected within a second when its role is removed', async () => {
    const client = await listening(mine.tokens.admin);
    const me = (await mine.call('GET', '/auth/me', undefined, { token: mine.tokens.admin })).body.user;
    await service.updateUser(me.id, { role: 'user' });
    expect((await client.closed).code).toBe(4403);
  });

  it('is disconnected within a second when its token is revoked', async () => {
    const client = await listening(mine.tokens.admin);
    await mine.call('POST', '/auth/logout', {}, { token: mine.tokens.admin });
    expect((await client.closed).code).toBe(4401);
  });

  it('is disconnected by a suspension, except an operator of the platform', async () => {
    const inside = await listening(mine.tokens.owner);
    const outside = await listening(operator, `tenant_id=${mine.tenantId}`);
    await service.call('POST', `/v1/admin/tenants/${mine.tenantId}/suspend`, { token: operator, body: {} });
    expect((await inside.closed).code).toBe(4403);
    expect(await outside.waitForMessages(1)).toMatchObject([
      { kind: 'tenant', from: 'active', to: 'suspended', event: 'suspend' },
    ]);
    await service.call('POST', `/v1/admin/tenants/${mine.tenantId}/resume`, { token: operator, body: {} });
    expect(await outside.waitForMessages(2)).toMatchObject([{}, { to: 'active' }]);
  });
});

describe('an operator', () => {
  it('connects with a ticket, to the tenant that they name', async () => {
    const { ticket } = (await service.call('POST', '/ws/ticket', { token: operator, body: {} })).body;
    const client = await listening(ticket, `tenant_id=${mine.tenantId}`);
    const id = await device();
    expect(await client.waitForMessages(1)).toMatchObject([{ id }]);
  });

  it('is in the audit of that tenant, with their address', async () => {
    await listening(operator, `tenant_id=${mine.tenantId}`);
    const { entries } = (await mine.call('GET', '/audit?action=openWebSocket')).body;
    expect(entries).toMatchObject([{ subject: 'stream:/ws/actors', via: 'websocket', address: '127.0.0.1' }]);
  });
});

it('an unknown filter is answered with an error, also for an operator without a tenant', async () => {
  for (const query of [`kind=lamp&tenant_id=${mine.tenantId}`, 'tenant_id=mine', 'kind=']) {
    expect((await (await connect(operator, query)).closed).code).toBe(4400);
  }
  expect((await (await connect('wrong', 'kind=lamp')).closed).code).toBe(4401);
});

it('the event bus has no subscriber without clients', async () => {
  expect(edge.edge.watching).toBe(0);
  const client = await listening(mine.tokens.admin);
  expect(edge.edge.watching).toBe(1);
  const another = await listening(mine.tokens.owner);
  expect(edge.edge.watching).toBe(1);
  client.socket.close();
  another.socket.close();
  await eventually(() => edge.edge.watching === 0);
});
