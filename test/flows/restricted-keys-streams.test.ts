import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { createClient } from 'graphql-ws';
import { connectAsync, type MqttClient } from 'mqtt';
import { describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { type KeyRestriction, permitsAction, reachesDevice } from '../../src/domain/key-restriction.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { callTool, codeOf, mcpClient, structured } from '../support/mcp.ts';
import { expectReached, fc, runs } from '../support/properties.ts';
import { mqttPortOf } from '../support/raw-device.ts';
import {
  all,
  at,
  closers,
  connectDevice,
  graphql,
  home,
  id,
  idsIn,
  livingLights,
  makeKey,
  mcpOf,
  type Name,
  names,
  owner,
  room,
  withRestrictedHome,
} from '../support/restricted-home.ts';
import { SocketClient } from '../support/state-sockets.ts';

// Restricted keys over the other wires; restricted-keys.test.ts has REST.

withRestrictedHome();

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

  it('reaches the devices of the rule on every wire', async () => {
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
