import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { createClient } from 'graphql-ws';
import { connectAsync, type MqttClient } from 'mqtt';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { type KeyRestriction, permitsAction, reachesDevice } from '../../src/domain/key-restriction.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import type { Device } from '../edges/mqtt/client.ts';
import { eventually } from '../support/clock.ts';
import { register } from '../support/device.ts';
import { callTool, codeOf, mcpClient, structured } from '../support/mcp.ts';
import { expectReached, fc, runs } from '../support/properties.ts';
import { connectRawDevice, mqttPortOf } from '../support/raw-device.ts';
import { type ApiClient, startService, type TestService } from '../support/service.ts';
import { SocketClient } from '../support/state-sockets.ts';

/*
 * A restricted key reaches the devices and actions that it was made for, on every wire, and nothing else.
 */

type Name = 'lamp' | 'dimmer' | 'lock' | 'porch' | 'shed' | 'attic';
const names: readonly Name[] = ['lamp', 'dimmer', 'lock', 'porch', 'shed', 'attic'];

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
const home = { lake: '', city: '' };
const room = { living: '', hall: '' };
const id = {} as Record<Name, string>;
/** The answers to the registrations, with the secrets. */
const registered = {} as Record<Name, Awaited<ReturnType<typeof register>>>;
const closers: (() => unknown)[] = [];

const idIn = async (answer: ReturnType<ApiClient['post']>): Promise<string> => (await answer).body.id;

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  home.lake = owner.homeId;
  home.city = await idIn(owner.post('/v1/homes', { home_name: 'City' }));
  room.living = await idIn(owner.post(`/v1/homes/${home.lake}/rooms`, { name: 'Living room' }));
  room.hall = await idIn(owner.post(`/v1/homes/${home.lake}/rooms`, { name: 'Hall' }));
  const places: Record<Name, object> = {
    lamp: { device_type: 'smart_light', home_id: home.lake, room_id: room.living },
    dimmer: { device_type: 'smart_light', home_id: home.lake, room_id: room.hall },
    lock: { device_type: 'smart_lock', home_id: home.lake, room_id: room.living },
    porch: { device_type: 'smart_light', home_id: home.lake },
    shed: { device_type: 'smart_lock', home_id: home.city },
    attic: { device_type: 'smart_light', home_id: home.city },
  };
  for (const name of names) {
    registered[name] = await register(owner, places[name] as Record<string, unknown>);
    id[name] = registered[name].device_id;
  }
  expect((await owner.post('/v1/groups', { name: 'Evening', device_ids: [id.porch, id.shed] })).status).toBe(201);
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});
afterAll(async () => {
  for (const device of connected.values()) await (await device).mqtt.endAsync();
  await at?.stop();
});

const makeKey = async (restrict_to: object | undefined, scopes: readonly string[] = ['all']): Promise<string> => {
  const made = await owner.post('/v1/auth/api-keys', { name: 'restricted', scopes, restrict_to });
  expect([made.status, made.body.detail]).toEqual([201, undefined]);
  return made.body.key;
};
const clientOf = async (restrict_to: object) => at.api(await makeKey(restrict_to));
const idsIn = (entries: readonly { id: string }[]): string[] => entries.map(({ id }) => id).sort();
const all = (...of: Name[]): string[] => of.map((name) => id[name]).sort();
const livingLights = () => ({ rooms: [room.living], categories: ['light'] });

/** One connection for all tests: a device counts its messages over its sessions. */
const connected = new Map<Name, Promise<Device>>();
function connectDevice(name: Name): Promise<Device> {
  const device = connected.get(name) ?? connectRawDevice(at, registered[name]);
  connected.set(name, device);
  return device;
}

async function mcpOf(key: string): Promise<Client> {
  const client = await mcpClient(at.url, key);
  closers.push(() => client.close());
  return client;
}

const graphql = async (key: string, query: string) => at.api(key).post('/graphql', { query });

describe('making a restricted key', () => {
  it.each<[string, object | string]>([
    ['no member', {}],
    ['an empty list', { rooms: [] }],
    ['an unknown member', { planets: ['earth'] }],
    ['an unknown category', { categories: ['spaceship'] }],
    ['an id that is not a UUID', { rooms: ['living room'] }],
    ['a text', 'the living room'],
  ])('refuses %s', async (_, restrict_to) => {
    const { status, body } = await owner.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'], restrict_to });
    expect([status, body.code]).toEqual([400, 'VALIDATION_FAILED']);
  });

  it('refuses places and devices that the tenant does not have', async () => {
    const other = await at.owner();
    const foreign = await register(other);
    for (const restrict_to of [
      { homes: [other.homeId] },
      { rooms: [other.homeId] },
      { groups: ['no-such-group'] },
      { devices: [id.lamp, foreign.device_id] },
    ]) {
      const { status, body } = await owner.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'], restrict_to });
      expect([status, body.code]).toEqual([404, 'NOT_FOUND']);
    }
  });

  it('shows the restriction in the list and to the key, and rotation keeps it', async () => {
    const restrict_to = { ...livingLights(), actions: ['turn_on'] };
    const made = await owner.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'], restrict_to });
    const { prefix, key } = made.body;
    const shown = async (of: string) =>
      (await owner.get('/v1/auth/api-keys')).body.keys.find((one: { prefix: string }) => one.prefix === of).restrict_to;
    expect(await shown(prefix)).toEqual(restrict_to);
    expect((await at.api(key).get('/v1/auth/me')).body.restrict_to).toEqual(restrict_to);
    expect((await owner.get('/v1/auth/me')).body).not.toHaveProperty('restrict_to');
    const rotated = await owner.post('/v1/auth/api-keys/rotate', { prefix });
    expect(await shown(rotated.body.prefix)).toEqual(restrict_to);
    expect((await at.api(rotated.body.key).get('/v1/devices')).body.count).toBe(1);
  });

  it('works in GraphQL too', async () => {
    const query = `mutation { createApiKey(input: {name: "g", scopes: ["all"],
      restrictTo: {rooms: ["${room.living}"], categories: [LIGHT]}}) { ... on CreateApiKeyResult { key } } }`;
    const made = await graphql(owner.token, query);
    const { data, errors } = made.body;
    expect(errors).toBeUndefined();
    const { body } = await at.api(data.createApiKey.key).get('/v1/devices');
    expect(idsIn(body.devices)).toEqual(all('lamp'));
  });
});

describe('over REST', () => {
  it('lists, counts and pages have only devices within reach', async () => {
    const caller = await clientOf({ homes: [home.lake] });
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const path: string = `/v1/devices?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`;
      const { body } = await caller.get(path);
      expect([body.count, body.devices.length]).toEqual([4, 1]);
      seen.push(body.devices[0].id);
      cursor = body.next_cursor;
    } while (cursor !== null);
    expect(seen.sort()).toEqual(all('lamp', 'dimmer', 'lock', 'porch'));
  });

  it('tags are counted, and found and commanded by, on devices that the key reaches', async () => {
    const tag = (name: Name, ...tags: string[]) => owner.patch(`/v1/devices/${id[name]}`, { tags });
    await Promise.all([tag('lamp', 'shown', 'all'), tag('lock', 'hidden', 'all'), tag('attic', 'all')]);
    const caller = await clientOf(livingLights());
    const [one, { body: counted }] = [{ devices: 1 }, await caller.get('/v1/tags')];
    expect(counted).toEqual({
      tags: [
        { tag: 'all', ...one },
        { tag: 'shown', ...one },
      ],
      count: 2,
      next_cursor: null,
    });
    expect(idsIn((await caller.get('/v1/devices?tag=all')).body.devices)).toEqual(all('lamp'));
    expect((await caller.get('/v1/devices?tag=hidden')).body.devices).toEqual([]);
    const { body } = await caller.post('/v1/devices/command', { tags: ['all'], action: 'turn_on' });
    expect(body.results.map(({ device_id }: { device_id: string }) => device_id)).toEqual([id.lamp]);
    await Promise.all([tag('lamp'), tag('lock'), tag('attic')]);
    expect((await owner.get('/v1/tags')).body.tags).toEqual([]);
  });

  it('homes, rooms and groups are seen as far as the key reaches', async () => {
    const caller = await clientOf(livingLights());
    expect(idsIn((await caller.get('/v1/homes')).body.homes)).toEqual([home.lake]);
    expect((await caller.get(`/v1/homes/${home.city}/rooms`)).status).toBe(404);
    expect(idsIn((await caller.get(`/v1/homes/${home.lake}/rooms`)).body.rooms)).toEqual([room.living]);
    expect((await caller.get('/v1/groups')).body.groups).toEqual([]);
    const whole = await clientOf({ homes: [home.lake] });
    expect((await whole.get(`/v1/homes/${home.lake}/rooms`)).body.rooms).toHaveLength(2);
    const group = (await (await clientOf({ groups: ['evening'], categories: ['light'] })).get('/v1/groups')).body
      .groups;
    expect(group.map(({ device_ids }: { device_ids: string[] }) => device_ids)).toEqual([[id.porch]]);
  });

  it('a device that moves out of the room, or leaves the group, is out of reach at once', async () => {
    const caller = await clientOf({ rooms: [room.living] });
    expect((await caller.get(`/v1/devices/${id.lamp}`)).status).toBe(200);
    await owner.patch(`/v1/devices/${id.lamp}`, { room_id: room.hall });
    expect((await caller.get(`/v1/devices/${id.lamp}`)).status).toBe(404);
    await owner.patch(`/v1/devices/${id.lamp}`, { room_id: room.living });
    expect((await caller.get(`/v1/devices/${id.lamp}`)).status).toBe(200);
    const ofGroup = await clientOf({ groups: ['evening'] });
    await owner.post('/v1/groups/evening/join', { device_id: id.attic });
    expect((await ofGroup.get(`/v1/devices/${id.attic}`)).status).toBe(200);
    await owner.delete(`/v1/groups/evening/devices/${id.attic}`);
    expect((await ofGroup.get(`/v1/devices/${id.attic}`)).status).toBe(404);
  });

  it('commands reach permitted devices with permitted actions alone, one by one, by lists, rooms, groups and intents', async () => {
    const caller = await clientOf({ ...livingLights(), actions: ['turn_on'] });
    const command = (name: Name, action: string) => caller.post(`/v1/device/${id[name]}/command`, { action });
    expect((await command('lamp', 'turn_on')).status).toBe(202);
    const refused = await command('lamp', 'turn_off');
    expect([refused.status, refused.body.code]).toEqual([403, 'KEY_RESTRICTED']);
    for (const name of ['dimmer', 'lock', 'shed'] as const) expect((await command(name, 'turn_on')).status).toBe(404);
    const several = await caller.post('/v1/devices/command', { device_ids: Object.values(id), action: 'turn_on' });
    const dispatched = (body: { results: { success: boolean; device_id: string }[] }) =>
      body.results.filter(({ success }) => success).map(({ device_id }) => device_id);
    expect(dispatched(several.body)).toEqual([id.lamp]);
    const inRoom = await caller.post(`/v1/rooms/${room.living}/command`, { action: 'turn_on' });
    expect(inRoom.body.results).toHaveLength(1);
    expect((await caller.post(`/v1/rooms/${room.hall}/command`, { action: 'turn_on' })).status).toBe(404);
    expect((await caller.post('/v1/groups/evening/command', { action: 'turn_on' })).status).toBe(404);
    const intent = (type: string, payload: object) => caller.post('/v1/intent', { type, payload });
    const byRoom = await intent('room.control', { room_id: room.living, action: 'turn_on' });
    expect(byRoom.body.results.map(({ device_id }: { device_id: string }) => device_id)).toEqual([id.lamp]);
    expect((await intent('device.control', { device_id: id.lock, action: 'turn_on' })).status).toBe(404);
    const turnOff = await intent('device.control', { device_id: id.lamp, action: 'turn_off' });
    expect(turnOff.body.code).toBe('KEY_RESTRICTED');
    const plan = { steps: [{ id: 'a', device_id: id.lamp, action: 'turn_on' }] };
    expect((await intent('plan.execute', { plan })).body.code).toBe('KEY_RESTRICTED');
    expect((await intent('goal', { text: 'light' })).body.code).toBe('KEY_RESTRICTED');
  });

  it('confirmations, commands and their history follow the device and the action', async () => {
    const locks = await clientOf({ devices: [id.lock] });
    const lights = await clientOf(livingLights());
    const onlyLocking = await clientOf({ devices: [id.lock], actions: ['lock'] });
    const waiting = await owner.post(`/v1/device/${id.lock}/command`, { action: 'unlock' });
    expect(waiting.status).toBe(409);
    const { command_id, dry_run_token } = waiting.body;
    const inbox = async (caller: ApiClient) =>
      (await caller.get('/v1/confirmations')).body.confirmations.map((one: { command_id: string }) => one.command_id);
    expect([await inbox(locks), await inbox(lights)]).toEqual([[command_id], []]);
    expect((await lights.get(`/v1/commands/${command_id}`)).status).toBe(404);
    expect((await lights.get(`/v1/device/${id.lock}/commands`)).status).toBe(404);
    expect((await lights.post(`/v1/confirmations/${command_id}/approve`, {})).status).toBe(404);
    expect((await lights.post(`/v1/confirmations/${command_id}/refuse`, {})).status).toBe(404);
    expect((await lights.post(`/v1/device/${id.lock}/command/confirm`, { dry_run_token })).status).toBe(404);
    expect((await lights.post(`/v1/commands/${command_id}/cancel`, {})).status).toBe(404);
    for (const [path, body] of [
      [`/v1/confirmations/${command_id}/approve`, {}],
      [`/v1/confirmations/${command_id}/refuse`, {}],
      [`/v1/device/${id.lock}/command/confirm`, { dry_run_token }],
      [`/v1/commands/${command_id}/cancel`, {}],
    ] as const)
      expect((await onlyLocking.post(path, body)).body.code).toBe('KEY_RESTRICTED');
    expect((await locks.post(`/v1/device/${id.lock}/command/confirm`, { dry_run_token })).status).toBe(202);
  });

  it('commands of plans are not shown to be confirmed, and cannot be confirmed, refused or cancelled', async () => {
    const caller = await clientOf({ devices: [id.lock] });
    const step = { id: 'a', device_id: id.lock, action: 'unlock' };
    const made = await owner.post('/v1/plans', {
      steps: [step, { id: 'b', device_id: id.shed, action: 'lock', depends_on: ['a'] }],
    });
    expect(made.status).toBe(202);
    const planId = made.body.plan.id;
    const plan = async () => (await owner.get(`/v1/plans/${planId}`)).body.plan;
    const waiting = await eventually(async () => {
      const [first] = (await plan()).steps;
      const { confirmations } = (await owner.get('/v1/confirmations')).body;
      return confirmations.find((one: { command_id: string }) => one.command_id === first.command_id);
    });
    const before = await plan();
    const { command_id } = waiting;
    expect((await caller.get(`/v1/commands/${command_id}`)).status).toBe(200);
    expect((await caller.get('/v1/confirmations')).body.confirmations).toEqual([]);
    for (const path of [
      `/v1/confirmations/${command_id}/approve`,
      `/v1/confirmations/${command_id}/refuse`,
      `/v1/commands/${command_id}/cancel`,
    ]) {
      const { status, body } = await caller.post(path, {});
      expect([path, status, body.code]).toEqual([path, 403, 'KEY_RESTRICTED']);
    }
    expect(await plan()).toEqual(before);
    expect((await owner.post(`/v1/plans/${planId}/cancel`, {})).status).toBe(202);
  });

  it('a stored answer of another credential is not repeated to a restricted key', async () => {
    const headers = { 'idempotency-key': 'the-same-key' };
    const body = { device_ids: [id.lock, id.lamp], action: 'turn_on' };
    await owner.post('/v1/devices/command', body, headers);
    const caller = await clientOf(livingLights());
    const refused = await caller.post('/v1/devices/command', body, headers);
    expect([refused.status, refused.body.code]).toEqual([409, 'CONFLICT']);
    const own = { 'idempotency-key': 'another-key' };
    const first = await caller.post('/v1/devices/command', body, own);
    expect(first.body.results[0].code).toBe('NOT_FOUND');
    expect((await caller.post('/v1/devices/command', body, own)).body).toEqual(first.body);
  });

  it('operations that do not support restricted keys refuse them', async () => {
    const caller = await clientOf({ actions: ['turn_on'] });
    for (const [method, path] of [
      ['get', '/v1/plans'],
      ['get', '/v1/memories'],
      ['get', '/v1/audit'],
      ['get', '/v1/actors'],
      ['get', '/v1/auth/api-keys'],
      ['get', '/v1/change-requests'],
      ['get', '/v1/overview'],
      ['delete', `/v1/devices/${id.shed}`],
      ['delete', `/v1/homes/${home.city}`],
      ['delete', '/v1/groups/evening'],
    ] as const) {
      const { status, body } = await caller[method](path);
      expect([path, status, body.code]).toEqual([path, 403, 'KEY_RESTRICTED']);
    }
    const renamed = await caller.patch(`/v1/devices/${id.lamp}`, { name: 'Mine' });
    expect(renamed.body.code).toBe('KEY_RESTRICTED');
  });
});

describe('over GraphQL', () => {
  it('nested fields have only what the key reaches', async () => {
    const key = await makeKey(livingLights());
    const { body } = await graphql(
      key,
      `{ devices { nodes { id room { id } home { id } } totalCount } homes { nodes { id rooms { id } } }
         lock: device(id: "${id.lock}") { id } }`,
    );
    expect(body.errors.map((error: { path: string[] }) => error.path)).toEqual([['lock']]);
    expect(body.data.devices.nodes).toEqual([{ id: id.lamp, room: { id: room.living }, home: { id: home.lake } }]);
    expect(body.data.homes.nodes).toEqual([{ id: home.lake, rooms: [{ id: room.living }] }]);
  });

  it('a subscription delivers changes of devices within reach, also after a group has changed', async () => {
    const [porch, lamp] = [await connectDevice('porch'), await connectDevice('lamp')];
    const socket = createClient({
      url: `${at.url.replace('http', 'ws')}/graphql`,
      webSocketImpl: WebSocket,
      connectionParams: { authorization: `Bearer ${await makeKey({ groups: ['evening'] })}` },
      retryAttempts: 0,
    });
    closers.push(() => socket.dispose());
    const seen: string[] = [];
    const subscribed = socket.iterate<{ stateChanged: { deviceId: string } }>({
      query: 'subscription { stateChanged { deviceId } }',
    });
    const reading = (async () => {
      for await (const { data } of subscribed) if (data) seen.push(data.stateChanged.deviceId);
    })();
    const report = async () => {
      await lamp.send('state', { state: { on: true } });
      await porch.send('state', { state: { on: true } });
    };
    await eventually(async () => {
      await report();
      return seen.length > 0;
    });
    expect(new Set(seen)).toEqual(new Set([id.porch]));
    await owner.post('/v1/groups/evening/join', { device_id: id.lamp });
    await eventually(async () => {
      await report();
      return seen.includes(id.lamp);
    });
    await owner.delete(`/v1/groups/evening/devices/${id.lamp}`);
    const before = seen.filter((one) => one === id.lamp).length;
    const porches = seen.length - before;
    await report();
    await eventually(() => seen.filter((one) => one === id.porch).length > porches);
    expect(seen.filter((one) => one === id.lamp)).toHaveLength(before);
    await subscribed.return?.(undefined as never);
    await reading;
  });
});

describe('over WebSocket', () => {
  const connectSocket = async (key: string, query: string) => {
    const socket = new SocketClient(`${at.url.replace('http', 'ws')}/ws/state?token=${key}&${query}`);
    closers.push(() => socket.socket.terminate());
    await socket.opened;
    return socket;
  };

  it('the snapshot and the updates are of devices within reach, also with a ticket', async () => {
    const [lamp, lock] = [await connectDevice('lamp'), await connectDevice('lock')];
    for (const device of [lamp, lock]) await device.send('state', { state: { seen: 1 } });
    await eventually(async () => (await owner.get(`/v1/devices/${id.lock}`)).body.device.state.seen === 1);
    const key = await makeKey(livingLights());
    const { ticket } = (await at.api(key).post('/ws/ticket', {})).body;
    for (const credential of [key, ticket]) {
      const socket = await connectSocket(credential, 'snapshot=1&events=state,presence,command');
      await socket.waitForMessages(1);
      await lock.send('state', { state: { seen: 2 } });
      await owner.post(`/v1/device/${id.lock}/command`, { action: 'lock' });
      await owner.post(`/v1/device/${id.lamp}/command`, { action: 'turn_on' });
      await lamp.send('state', { state: { last: credential } });
      await eventually(() =>
        socket.messages.some((message) => (message.state as { last?: string } | undefined)?.last === credential),
      );
      expect(socket.messages.some(({ type }) => type === 'command_update')).toBe(true);
      expect(new Set(socket.messages.map(({ device_id }) => device_id))).toEqual(new Set([id.lamp]));
    }
  });

  it('plans and transitions of actors are refused', async () => {
    const key = await makeKey({ actions: ['turn_on'] });
    const plans = await connectSocket(key, 'events=plan');
    expect((await plans.closed).code).toBe(4403);
    const actors = new SocketClient(`${at.url.replace('http', 'ws')}/ws/actors?token=${key}`);
    expect((await actors.closed).code).toBe(4403);
  });

  it('ends when the key is revoked', async () => {
    const made = await owner.post('/v1/auth/api-keys', { name: 'k', scopes: ['all'], restrict_to: livingLights() });
    const socket = await connectSocket(made.body.key, 'events=state');
    await owner.post('/v1/auth/api-keys/revoke', { prefix: made.body.prefix });
    expect((await socket.closed).code).toBe(4401);
  });

  it('closes with 1013 when the devices within reach cannot be read, and delivers nothing more', async () => {
    const [porch, attic] = [await connectDevice('porch'), await connectDevice('attic')];
    const socket = await connectSocket(await makeKey({ groups: ['evening'] }), 'events=state');
    await eventually(async () => {
      await porch.send('state', { state: { seen: 5 } });
      return socket.messages.length > 0;
    });
    await owner.post('/v1/groups/evening/join', { device_id: id.attic });
    const unavailable = vi.spyOn(at.services.store.records, 'group').mockRejectedValue(new StoreUnavailable('away'));
    closers.push(() => unavailable.mockRestore());
    await attic.send('state', { state: { seen: 5 } });
    await porch.send('state', { state: { seen: 6 } });
    const { code, reason } = await socket.closed;
    expect([code, reason]).toEqual([1013, 'updates were lost: connect again']);
    expect(new Set(socket.messages.map(({ state }) => (state as { seen: number }).seen))).toEqual(new Set([5]));
    unavailable.mockRestore();
    await owner.delete(`/v1/groups/evening/devices/${id.attic}`);
  });
});

describe('over MQTT', () => {
  it('a listener receives the messages of devices within reach alone', async () => {
    const [lamp, lock] = [await connectDevice('lamp'), await connectDevice('lock')];
    const options = { username: 'jwt', reconnectPeriod: 0, protocolVersion: 4 } as const;
    const password = await makeKey(livingLights());
    const mqtt: MqttClient = await connectAsync(`mqtt://127.0.0.1:${mqttPortOf(at)}`, { ...options, password }, false);
    closers.push(() => mqtt.endAsync(true));
    const topics: string[] = [];
    mqtt.on('message', (topic) => topics.push(topic));
    await mqtt.subscribeAsync(`proto/${owner.tenantId}/device/#`, { qos: 1 });
    await lock.send('heartbeat', {});
    await lock.send('state', { state: { seen: 3 } });
    await owner.post(`/v1/device/${id.lock}/command`, { action: 'lock' });
    await lamp.send('heartbeat', {});
    await owner.post(`/v1/device/${id.lamp}/command`, { action: 'turn_on' });
    await lamp.send('state', { state: { seen: 3 } });
    const wanted = ['heartbeat', 'cmd', 'state'].map(
      (channel) => `proto/${owner.tenantId}/device/${id.lamp}/${channel}`,
    );
    await eventually(() => {
      expect(topics).toEqual(expect.arrayContaining(wanted));
      return true;
    });
    expect(topics.filter((topic) => !topic.includes(id.lamp))).toEqual([]);
  });
});

describe('over MCP', () => {
  it('tools, resources and completions show what the key reaches', async () => {
    const client = await mcpOf(await makeKey({ ...livingLights(), actions: ['turn_on'] }));
    const tools = (await client.listTools()).tools.map(({ name }) => name);
    expect(tools).toContain('list_devices');
    for (const hidden of ['execute_plan', 'get_agent_memories', 'write_agent_memory', 'decommission_device'])
      expect(tools).not.toContain(hidden);
    expect(idsIn(structured(await callTool(client, 'list_devices')).devices)).toEqual(all('lamp'));
    expect(codeOf(await callTool(client, 'get_device_state', { device_id: id.lock }))).toBe('NOT_FOUND');
    const uris: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await client.listResources(cursor === undefined ? {} : { cursor });
      uris.push(...page.resources.map(({ uri }) => uri));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    expect(uris).toEqual([`twin://homes/${home.lake}`, `twin://devices/${id.lamp}`]);
    await expect(client.readResource({ uri: `twin://devices/${id.lock}` })).rejects.toThrow('NOT_FOUND');
    const shown = await client.readResource({ uri: `twin://homes/${owner.homeId}` });
    expect(JSON.stringify(shown)).not.toContain(id.lock);
    const ref = { type: 'ref/resource', uri: 'twin://devices/{id}' } as const;
    const completed = await client.complete({ ref, argument: { name: 'id', value: '' } });
    expect(completed.completion.values).toEqual([id.lamp]);
  });

  it('notifications about a home are about devices within reach', async () => {
    const [lamp, lock] = [await connectDevice('lamp'), await connectDevice('lock')];
    const client = await mcpOf(await makeKey(livingLights()));
    const uris: string[] = [];
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void uris.push(params.uri));
    await client.subscribeResource({ uri: `twin://homes/${owner.homeId}` });
    await lock.send('state', { state: { seen: 4 } });
    await eventually(async () => (await owner.get(`/v1/devices/${id.lock}`)).body.device.state.seen === 4);
    // Longer than the interval in which notifications are collected, so that one about the lock would have been sent.
    await client.subscribeResource({ uri: `twin://devices/${id.lamp}` });
    await lamp.send('state', { state: { seen: 4 } });
    await eventually(() => uris.includes(`twin://devices/${id.lamp}`) && uris.length >= 2);
    expect(uris.sort()).toEqual([`twin://devices/${id.lamp}`, `twin://homes/${owner.homeId}`]);
  });
});

describe('a key with a random restriction', () => {
  const facts: Record<Name, { homeId: string | null; roomId: string | null; category: string; inGroup: boolean }> = {
    lamp: { homeId: 'lake', roomId: 'living', category: 'light', inGroup: false },
    dimmer: { homeId: 'lake', roomId: 'hall', category: 'light', inGroup: false },
    lock: { homeId: 'lake', roomId: 'living', category: 'lock', inGroup: false },
    porch: { homeId: 'lake', roomId: null, category: 'light', inGroup: true },
    shed: { homeId: 'city', roomId: null, category: 'lock', inGroup: true },
    attic: { homeId: 'city', roomId: null, category: 'light', inGroup: false },
  };
  const some = <T>(...of: T[]) => fc.option(fc.subarray(of, { minLength: 1 }), { nil: undefined });
  const drawn = fc
    .record({
      homes: some<keyof typeof home>('lake', 'city'),
      rooms: some<keyof typeof room>('living', 'hall'),
      groups: some('evening'),
      devices: some(...names),
      categories: some('light', 'lock'),
      actions: some('turn_on', 'lock'),
    })
    .filter((given) => Object.values(given).some((list) => list !== undefined));

  it('reaches the devices of the rule on every wire', { timeout: 30_000 }, async () => {
    let reachedSome = 0;
    const check = async (given: KeyRestriction) => {
      const { homes, rooms, devices, ...rest } = given;
      const restrict_to = {
        ...rest,
        homes: homes?.map((name) => home[name as keyof typeof home]),
        rooms: rooms?.map((name) => room[name as keyof typeof room]),
        devices: devices?.map((name) => id[name as Name]),
      };
      const expected = names.filter((name) =>
        reachesDevice(given, { id: name, ...facts[name] }, facts[name].inGroup && given.groups !== undefined),
      );
      if (expected.length > 0 && expected.length < names.length) reachedSome += 1;
      const key = await makeKey(restrict_to);
      const caller = at.api(key);
      const list = (await caller.get('/v1/devices')).body;
      expect([list.count, idsIn(list.devices)]).toEqual([expected.length, all(...expected)]);
      const aliases = names.map((name) => `${name}: device(id: "${id[name]}") { id }`).join(' ');
      const { data } = (await graphql(key, `{ ${aliases} }`)).body;
      const client = await mcpClient(at.url, key);
      for (const name of names) {
        const isReached = expected.includes(name);
        expect((await caller.get(`/v1/devices/${id[name]}`)).status).toBe(isReached ? 200 : 404);
        expect(data[name] !== null).toBe(isReached);
        const tool = await callTool(client, 'get_device_state', { device_id: id[name] });
        expect(codeOf(tool)).toBe(isReached ? null : 'NOT_FOUND');
        const action = facts[name].category === 'lock' ? 'lock' : 'turn_on';
        const { status } = await caller.post(`/v1/device/${id[name]}/command`, { action });
        expect(status).toBe(permitsAction(given, action) ? (isReached ? 202 : 404) : 403);
      }
      await client.close();
    };
    await fc.assert(
      fc.asyncProperty(drawn, (given) => check(given as KeyRestriction)),
      runs(12),
    );
    expectReached(() => expect(reachedSome).toBeGreaterThan(5));
  });
});
