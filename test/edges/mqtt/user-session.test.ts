import { randomUUID } from 'node:crypto';
import { connectAsync, type MqttClient } from 'mqtt';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { matchesTopic, parseTopicFilter } from '../../../src/edges/mqtt/topic-filters.ts';
import type { MqttUser } from '../../../src/edges/mqtt/user-session.ts';
import { connack, Device, eventually, gone, packets, quiet, Raw } from './client.ts';
import { EdgeHarness, type OpenMqttEdge, type TestDevice } from './edge-harness.ts';

let service: EdgeHarness;
let edge: OpenMqttEdge;
let device: TestDevice;

beforeEach(async () => {
  service = new EdgeHarness();
  device = service.addDevice();
  edge = await service.open({ limits: { maxFilters: 4 } });
});
afterEach(() => edge.close());

function user(secret: string, changes: Partial<MqttUser> = {}): MqttUser {
  const made: MqttUser = {
    tenantId: device.tenantId,
    userId: randomUUID(),
    expiresAt: null,
    role: 'user',
    scopes: null,
    ...changes,
  };
  service.users.set(secret, made);
  return made;
}

interface ReceivedPacket {
  topic: string;
  payload: string;
  qos: number;
  retain: boolean;
}

async function listen(
  secret = 'token',
  ...filters: string[]
): Promise<{ mqtt: MqttClient; received: ReceivedPacket[] }> {
  const mqtt = await connectAsync(
    `mqtt://127.0.0.1:${edge.port}`,
    { ...quiet, clientId: 'me', username: 'jwt', password: secret },
    false,
  );
  const received: ReceivedPacket[] = [];
  mqtt.on('error', () => {});
  mqtt.on('message', (topic, payload, { qos, retain }) => {
    received.push({ topic, payload: payload.toString(), qos, retain });
  });
  for (const filter of filters) await mqtt.subscribeAsync(filter, { qos: 1 });
  return { mqtt, received };
}

const below = (rest: string) => `proto/${device.tenantId}/device/${rest}`;

describe('a tenant user', () => {
  it('signs in with the role and scope of the device list, in a tenant that is not suspended', async () => {
    user('token');
    user('admin', { role: 'admin', scopes: ['read:devices'] });
    user('viewer', { role: 'viewer' });
    user('commander', { scopes: ['execute:commands'] });
    const parked = service.addTenant();
    service.tenants.set(parked, 'suspended');
    user('parked', { tenantId: parked });
    const answers: Record<string, number | null> = {};
    for (const password of ['token', 'admin', 'viewer', 'commander', 'parked', 'unknown', '']) {
      answers[password] = await connack(edge.port, { clientId: 'x', username: 'jwt', password });
    }
    expect(answers).toEqual({ token: 0, admin: 0, viewer: 5, commander: 5, parked: 5, unknown: 5, '': 5 });
    const will = {
      topic: below(`${device.deviceId}/state`),
      payload: Buffer.from('x'),
      qos: 0 as const,
      retain: false,
    };
    expect(await connack(edge.port, { username: 'jwt', password: 'token', will })).toBe(5);
    expect(await connack(edge.port, { username: 'jwt', password: 'token', clientId: 'x', clean: false })).toBe(5);
  });

  it('is refused if the tenant is suspended between check and sign-in', async () => {
    user('token');
    const { get } = service.tenants;
    let requested = 0;
    service.tenants.get = (id) =>
      id === device.tenantId && requested++ > 0 ? 'suspended' : get.call(service.tenants, id);
    expect(await connack(edge.port, { username: 'jwt', password: 'token' })).not.toBe(0);
    expect(requested).toBeGreaterThan(1);
  });

  it('that a suspension missed is disconnected at the next check of its credential', async () => {
    const { userId } = user('token');
    const { mqtt } = await listen('token', below('#'));
    const over = gone(mqtt);
    service.tenants.set(device.tenantId, 'suspended');
    service.invalidations.publish({ about: 'user', id: userId });
    await over;
  });

  it('is authenticated again when a credential has ended, and not when groups or flags changed', async () => {
    await edge.close();
    let checks = 0;
    edge = await service.open({
      authenticateUser: async (secret) => {
        checks += 1;
        return service.users.get(secret) ?? null;
      },
    });
    user('token');
    const { mqtt } = await listen('token', below('#'));
    const atSignIn = checks;
    service.invalidations.publish({ about: 'groups', tenantId: device.tenantId });
    service.invalidations.publish({ about: 'flags' });
    service.invalidations.publish({ about: 'ca', id: randomUUID() });
    expect(checks).toBe(atSignIn);
    service.users.delete('token');
    const over = gone(mqtt);
    service.invalidations.publish({ about: 'key', prefix: 'abcdefgh' });
    await over;
    expect(checks).toBe(atSignIn + 1);
  });

  it('is answered as unavailable when its credential cannot be checked', async () => {
    await edge.close();
    edge = await service.open({
      authenticateUser: async () => {
        throw new Error('away');
      },
    });
    expect(await connack(edge.port, { username: 'jwt', password: 'token' })).toBe(3);
  });

  it('receives messages of and to devices of its tenant once they are durable', async () => {
    user('token');
    const { mqtt, received } = await listen('token', below('#'));
    const client = await Device.connect(service, device, edge.port);
    await client.listen();
    let commit = () => {};
    service.commit = () => new Promise((resolve) => (commit = resolve));
    const sent = client.send('state', { state: { on: true } }, { messageId: 'm', sequence: 1 });
    await eventually(() => expect(service.received).toHaveLength(1));
    expect(received).toEqual([]);
    commit();
    await sent;
    service.commit = async () => {};
    await eventually(() => expect(received).toHaveLength(1));
    expect(received[0]).toMatchObject({ topic: client.topic('state'), qos: 1, retain: false });
    expect(JSON.parse((received[0] as ReceivedPacket).payload).payload).toEqual({ state: { on: true } });

    await client.send('state', { state: { on: true } }, { messageId: 'm', sequence: 1 });
    await client.send('state', {}, { sequence: 2 });
    await client.send('heartbeat', {}, { sequence: 3 }, 0);
    await eventually(() => expect(received).toHaveLength(3));
    expect(received.slice(1).map(({ topic, qos }) => [topic.split('/').at(-1), qos])).toEqual([
      ['cmd', 1],
      ['heartbeat', 0],
    ]);
    await mqtt.endAsync();
  });

  it('receives nothing of another tenant', async () => {
    user('token');
    const { mqtt, received } = await listen('token', below('+/state'));
    const outsider = await Device.connect(service, service.addDevice(), edge.port);
    await outsider.send('state', { state: {} });
    const client = await Device.connect(service, device, edge.port);
    await client.send('state', { state: {} });
    await eventually(() => expect(received.map(({ topic }) => topic)).toEqual([client.topic('state')]));
    await mqtt.endAsync();
  });

  it('receives each message once, in the highest QoS of its matching filters', async () => {
    user('token');
    const { mqtt, received } = await listen('token', below('#'), below('+/state'));
    await mqtt.subscribeAsync(below('+/heartbeat'), { qos: 0 });
    await mqtt.unsubscribeAsync(below('#'));
    const client = await Device.connect(service, device, edge.port);
    await client.send('state', { state: {} });
    await client.send('heartbeat', {});
    await eventually(() => expect(received.map(({ qos }) => qos)).toEqual([1, 0]));
    await mqtt.endAsync();
  });

  it('may subscribe only to topics of devices in its tenant', async () => {
    user('token');
    const raw = await Raw.open(edge.port);
    raw.socket.write(packets.connect({ clientId: 'x', username: 'jwt', password: 'token' }));
    const good = [below('#'), below('+/+'), below(`${device.deviceId}/state`), below(`${device.deviceId}/#`)];
    const bad = [
      '#',
      'proto/#',
      'proto/+/device/#',
      `proto/${device.tenantId}/#`,
      `proto/${device.tenantId}/device`,
      `proto/${randomUUID()}/device/#`,
      '$SYS/#',
      '+/+/+/+/+',
      below(''),
      below('a//b'),
      below('a/b/c/d/e'),
      below('one too many'),
    ];
    raw.socket.write(packets.subscribe(1, ...good));
    await eventually(() => expect([...raw.bytes]).toEqual([0x20, 2, 0, 0, 0x90, 6, 0, 1, 1, 1, 1, 1]));
    raw.bytes = Buffer.alloc(0);
    raw.socket.write(packets.subscribe(2, ...bad));
    const answers = [0x90, 2 + bad.length, 0, 2, ...bad.map(() => 0x80)];
    await eventually(() => expect([...raw.bytes]).toEqual(answers));
    raw.socket.destroy();
  });

  it('cannot publish', async () => {
    user('token');
    for (const topic of [below(`${device.deviceId}/cmd`), below(`${device.deviceId}/state`), 'x']) {
      const { mqtt } = await listen();
      mqtt.publish(topic, 'x');
      await gone(mqtt);
    }
    expect(service.received).toEqual([]);
    expect(service.counted['closed forbidden']).toBe(3);
  });

  it('can have several connections, with any client identifier', async () => {
    user('token');
    const one = await listen();
    const two = await listen();
    expect([one.mqtt.connected, two.mqtt.connected]).toEqual([true, true]);
    await one.mqtt.endAsync();
    await two.mqtt.endAsync();
  });

  it('is disconnected when its credential ends by time, revocation, loss of role, or leaving its tenant', async () => {
    const now = service.now;
    user('short', { expiresAt: now + 1_000 });
    for (const secret of ['revoked', 'demoted', 'moved', 'kept']) user(secret);
    const users = await Promise.all(['short', 'revoked', 'demoted', 'moved', 'kept'].map((secret) => listen(secret)));
    service.now += 1_000;
    service.users.delete('revoked');
    user('demoted', { role: 'viewer' });
    user('moved', { tenantId: service.addTenant() });
    await Promise.all(users.slice(0, 4).map(({ mqtt }) => gone(mqtt)));
    expect(users[4]?.mqtt.connected).toBe(true);
    expect(service.counted['closed credential']).toBe(4);
    await users[4]?.mqtt.endAsync();
  });

  it('is disconnected at once when its tenant is suspended', async () => {
    user('token');
    const { mqtt } = await listen();
    service.emit({ type: 'tenant.changed', tenantId: device.tenantId, suspended: true, at: service.now });
    await gone(mqtt);
  });

  it('that stops reading is disconnected, while devices and other users continue', async () => {
    await edge.close();
    edge = await service.open({ limits: { queuedBytes: 262_144, stallMs: 60_000 } });
    user('token');
    const frozen = await Raw.open(edge.port);
    frozen.socket.write(packets.connect({ clientId: 'x', username: 'jwt', password: 'token' }));
    frozen.socket.write(packets.subscribe(1, below('#')));
    await eventually(() => expect(frozen.bytes.length).toBeGreaterThan(5));
    frozen.socket.pause();
    const { mqtt, received } = await listen('token', below('#'));
    const client = await Device.connect(service, device, edge.port);
    const text = 'x'.repeat(30_000);
    let sent = 0;
    while (service.counted['closed slow'] === undefined) {
      await client.send('state', { state: { text } });
      sent += 1;
      expect(sent).toBeLessThan(2_000);
    }
    await eventually(() => expect(received).toHaveLength(sent));
    frozen.socket.destroy();
    await mqtt.endAsync();
  });
});

describe('a topic filter', () => {
  const tenant = '0190b4f3-0000-7000-8000-000000000000';
  const levels = (rest: string) => parseTopicFilter(`proto/${tenant}/device/${rest}`, tenant);

  it('matches as MQTT specifies', () => {
    const topic = ['d1', 'state'];
    const takesIt = (rest: string) => matchesTopic(levels(rest) ?? [], topic);
    expect(['#', '+/+', '+/state', 'd1/+', 'd1/#', 'd1/state', 'd1/state/#', '+/#'].map(takesIt)).toEqual(
      Array.from({ length: 8 }, () => true),
    );
    expect(['+', 'd1', 'd2/state', 'd1/cmd', 'd1/state/x', '+/+/+', 'd1/state/+'].map(takesIt)).toEqual(
      Array.from({ length: 7 }, () => false),
    );
  });

  it('has wildcards only as whole levels, # at the end', () => {
    expect(['#/state', 'd+/state', 'd1/st#', '+x', ''].map(levels)).toEqual([null, null, null, null, null]);
  });
});
