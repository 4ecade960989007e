import { connectAsync, type MqttClient } from 'mqtt';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { updateKindNames } from '../../src/edges/shared/live/update-kinds.ts';
import type { Device } from '../edges/mqtt/client.ts';
import { eventually } from '../support/clock.ts';
import { register } from '../support/device.ts';
import { mcpClient } from '../support/mcp.ts';
import { connectRawDevice, mqttPortOf } from '../support/raw-device.ts';
import { startService, type TestService } from '../support/service.ts';

/*
 * A credential receives on streams only what it may read over REST.
 */

let at: TestService;
let owner: Awaited<ReturnType<TestService['owner']>>;
let light: Device;
let deviceId: string;
const open: MqttClient[] = [];

beforeAll(async () => {
  at = await startService();
  owner = await at.owner();
  const registered = await register(owner);
  deviceId = registered.device_id;
  light = await connectRawDevice(at, registered);
});
afterEach(() => {
  for (const client of open.splice(0)) client.end(true);
});
afterAll(async () => {
  await light?.mqtt.endAsync();
  await at?.stop();
});

const keyWith = async (...scopes: string[]): Promise<string> => {
  const made = await owner.post('/v1/auth/api-keys', { name: 'k', scopes });
  expect(made.status).toBe(201);
  return made.body.key;
};

const topic = (channel: string): string => `proto/${owner.tenantId}/device/${channel}`;

interface Listener {
  mqtt: MqttClient;
  received: { channel: string; text: string }[];
  channels(): string[];
}

/** An MQTT client of a user, subscribed to every message of the tenant. */
async function listener(key: string): Promise<Listener> {
  const options = { username: 'jwt', password: key, reconnectPeriod: 0, protocolVersion: 4 } as const;
  const mqtt = await connectAsync(`mqtt://127.0.0.1:${mqttPortOf(at)}`, options, false);
  open.push(mqtt);
  mqtt.on('error', () => {});
  const received: Listener['received'] = [];
  mqtt.on('message', (name, payload) => {
    received.push({ channel: name.split('/').at(-1) ?? '', text: payload.toString() });
  });
  await mqtt.subscribeAsync(topic('#'), { qos: 1 });
  return { mqtt, received, channels: () => received.map(({ channel }) => channel) };
}

const command = async (action: string, params: object) => {
  const { body } = await owner.post(`/v1/device/${deviceId}/command`, { action, params });
  if (body.dry_run_token !== undefined) {
    const { dry_run_token } = body;
    expect((await owner.post(`/v1/device/${deviceId}/command/confirm`, { dry_run_token })).status).toBe(202);
  }
  return body.command_id as string;
};

/** The device's command of this id. */
const received = (id: string) =>
  eventually(() => light.received.find(({ type, payload }) => type === 'cmd' && payload.command_id === id) ?? null);

describe('over MQTT', () => {
  it('a key that may read devices alone receives no command and no acknowledgement, whatever its filter', async () => {
    const key = await keyWith('read:devices');
    const commands = await at.api(key).get(`/v1/device/${deviceId}/commands`);
    expect([commands.status, commands.body.code]).toEqual([403, 'INSUFFICIENT_SCOPE']);
    const [narrow, wide] = [await listener(key), await listener(await keyWith('read:devices', 'read:commands'))];
    await narrow.mqtt.subscribeAsync([topic('+/+'), topic(`${deviceId}/#`)], { qos: 1 });
    for (const channel of ['cmd', 'cmd_ack']) {
      for (const filter of [topic(`+/${channel}`), topic(`${deviceId}/${channel}`)]) {
        await expect(narrow.mqtt.subscribeAsync(filter, { qos: 1 })).rejects.toThrow();
        await wide.mqtt.subscribeAsync(filter, { qos: 1 });
      }
    }
    const id = await command('set_effect', { effect: 'rainbow' });
    await received(id);
    await light.send('cmd_ack', { command_id: id, status: 'accepted' });
    await light.send('cmd_ack', { command_id: id, status: 'succeeded', result: { text: 'a private word' } });
    await light.send('state', { state: { on: true } });
    await eventually(() => narrow.channels().includes('state') && wide.channels().includes('state'));
    expect(new Set(narrow.channels())).toEqual(new Set(['state']));
    expect(wide.channels()).toEqual(expect.arrayContaining(['cmd', 'cmd_ack', 'cmd_ack', 'state']));
    expect(JSON.stringify(narrow.received)).not.toMatch(/rainbow|private word/);
  });

  it('a listener receives a firmware command without the signed URL that the device receives', async () => {
    const draft = await owner.post('/v1/firmware/release', { device_type: 'smart_light', version: '9.9.9' });
    const firmware_id = draft.body.id;
    const uploaded = await fetch(`${at.url}/v1/firmware/${firmware_id}/artifact`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/octet-stream' },
      body: Buffer.from('PROPRIETARY FIRMWARE'),
    });
    expect(uploaded.status).toBe(200);
    expect((await owner.post(`/v1/firmware/${firmware_id}/release`, { rollout_percent: 100 })).status).toBe(200);
    const all = await listener(await keyWith('all'));
    const id = await command('update_firmware', { firmware_id });
    const { payload, text } = await received(id);
    const url = (payload as unknown as { params: { url: string } }).params.url;
    expect(await (await fetch(url)).text()).toBe('PROPRIETARY FIRMWARE');
    const copy = await eventually(() => all.received.find(({ channel }) => channel === 'cmd') ?? null);
    const { payload: shown, ...rest } = JSON.parse(copy.text);
    expect(shown).toEqual({ ...payload, params: { firmware_id } });
    // Hash and signature are those of the device's message, which this is a copy of.
    expect(rest).toEqual((({ payload: _, ...others }) => others)(JSON.parse(text)));
    expect(copy.text).not.toMatch(/signature=|"url"/);
    expect((await owner.get(`/v1/commands/${id}`)).body.command.params).toEqual({ firmware_id });
  });
});

describe('over WebSocket', () => {
  const outcome = async (key: string, kind: string): Promise<number | null> => {
    const socket = new WebSocket(`${at.url.replace('http', 'ws')}/ws/state?token=${key}&events=${kind}`);
    const code = await new Promise<number | null>((resolve) => {
      socket.once('close', resolve);
      socket.once('open', () => socket.send('ping'));
      socket.once('message', () => resolve(null));
    });
    socket.terminate();
    return code;
  };

  it('each kind is received with the scope of its GET alone', async () => {
    const gets = {
      state: '/v1/devices',
      report: '/v1/devices',
      presence: '/v1/devices',
      telemetry: '/v1/devices',
      command: `/v1/device/${deviceId}/commands`,
      confirmation: '/v1/confirmations',
      plan: '/v1/plans',
    };
    for (const scope of ['read:devices', 'read:commands', 'read:plans', 'read:homes']) {
      const key = await keyWith(scope);
      for (const kind of updateKindNames) {
        const { status } = await at.api(key).get(gets[kind]);
        expect([scope, kind, await outcome(key, kind)]).toEqual([scope, kind, status === 200 ? null : 4403]);
      }
    }
  });
});

describe('over MCP', () => {
  it('following a home needs the scopes of homes and of devices, because the notifications reveal changes of devices', async () => {
    const uri = `twin://homes/${owner.homeId}`;
    const homes = await mcpClient(at.url, await keyWith('read:homes'));
    await homes.readResource({ uri });
    await expect(homes.subscribeResource({ uri })).rejects.toThrow('INSUFFICIENT_SCOPE');
    const both = await mcpClient(at.url, await keyWith('read:homes', 'read:devices'));
    await both.subscribeResource({ uri });
    await Promise.all([homes.close(), both.close()]);
  });
});
