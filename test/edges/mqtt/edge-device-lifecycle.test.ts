import { connectAsync } from 'mqtt';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { openMqtt } from '../../../src/edges/mqtt/edge.ts';
import { userAuthentication } from '../../../src/edges/mqtt/user-session.ts';
import { clientAddress } from '../../../src/edges/shared/client-address.ts';
import { encryptedRequests } from '../../../src/edges/shared/transport-security.ts';
import { cloudPublicKey, newDeviceSecret, signingKey } from '../../../src/protocol/signature.ts';
import type { HttpService } from '../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../support/test-tenant.ts';
import { type Around, connack, credentials, Device, eventually, gone, quiet } from './client.ts';
import type { OpenMqttEdge, TestDevice } from './edge-harness.ts';

const cloudKey = signingKey('ed25519', newDeviceSecret());
const REFUSED = 5;

let service: HttpService;
let edge: OpenMqttEdge;
let mine: TestTenant;
let around: Around;
let device: TestDevice;

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  around = {
    get now() {
      return service.clock.now();
    },
    cloudPublicKey: cloudPublicKey(cloudKey),
  };
  mine = await makeTestTenant(service);
});
afterAll(() => service.close());

beforeEach(async () => {
  const opened = await openMqtt({
    services: service.services,
    settings: {
      host: '127.0.0.1',
      port: 0,
      tls: null,
      maxConnections: 100,
      deviceRate: { perSecond: 50, burst: 500 },
    },
    signingKeys: { current: cloudKey, previous: null },
    watches: (deviceId) => service.runtime.watches.forDevice(deviceId),
    authenticateUser: userAuthentication(service.identity, service.services.newId),
    addressOf: clientAddress([]),
    isEncrypted: encryptedRequests([]),
    log: service.services.log,
  });
  edge = { ...opened, port: opened.port ?? 0 };
  device = await register();
  service.clock.advance(1);
});
afterEach(() => edge.close());

async function register(alg: 'hmac-sha256' | 'ed25519' = 'hmac-sha256'): Promise<TestDevice> {
  const made = await mine.register({ signing_alg: alg });
  return { deviceId: made.device_id, tenantId: mine.tenantId, secret: made.device_secret, alg, keyVersion: 1 };
}

const connect = async (as = device) => {
  service.clock.advance(1);
  return Device.connect(around, as, edge.port);
};
const signIn = (as: TestDevice) => connack(edge.port, credentials(around, as));
const shown = async () => (await mine.call('GET', `/devices/${device.deviceId}`)).body.device;
const command = async (body: object) => {
  const { status, body: answer } = await mine.call('POST', `/device/${device.deviceId}/command`, body);
  expect(status).toBe(202);
  return answer.command_id as string;
};
const commandStatus = async (id: string) => {
  const { status, verification } = (await mine.call('GET', `/commands/${id}`)).body.command;
  return [status, verification.status];
};

describe('a device and the service', () => {
  it('connect: hello, state, heartbeat, presence', async () => {
    const client = await connect();
    await client.listen();
    await client.send('state', { state: { on: false, brightness: 10 } });
    await client.send('state', { state: { on: true } });
    await client.send('heartbeat', { battery: 77 });
    await client.send('hello', { protocol: 'PROTO/3.1', firmware: '1.2.3' });
    await eventually(() =>
      expect(client.received).toMatchObject([
        { type: 'hello_ack', payload: { last_sequence: 3, key_version: 1, heartbeat_s: 60 } },
      ]),
    );
    expect(await shown()).toMatchObject({
      online: true,
      firmware: '1.2.3',
      state: { on: true, brightness: 10 },
      state_version: 2,
    });
    await client.mqtt.endAsync();
    await eventually(async () => expect((await shown()).online).toBe(false));
  });

  it('take a command from its request to a verified state, with either kind of key', async () => {
    for (const alg of ['hmac-sha256', 'ed25519'] as const) {
      device = await register(alg);
      const client = await connect();
      await client.listen();
      const id = await command({ action: 'set_brightness', params: { level: 40 } });
      await eventually(() => expect(client.received).toMatchObject([{ type: 'cmd', payload: { command_id: id } }]));
      await client.send('cmd_ack', { command_id: id, status: 'accepted' });
      expect(await commandStatus(id)).toEqual(['acknowledged', 'pending']);
      await client.send('cmd_ack', { command_id: id, status: 'succeeded', state: { brightness: 40 } });
      // The PUBACK came after both the twin and the command were committed.
      expect(await commandStatus(id)).toEqual(['succeeded', 'verified']);
      await client.mqtt.endAsync();
    }
  });

  it('keep a command until the subscription, and write it again in the next session', async () => {
    const id = await command({ action: 'set_brightness', params: { level: 1 } });
    for (let session = 1; session <= 2; session++) {
      const client = await connect();
      await client.listen();
      await eventually(() => expect(client.received.map(({ messageId }) => messageId)).toHaveLength(1));
      expect(client.received[0]).toMatchObject({ type: 'cmd', sequence: 1, payload: { command_id: id } });
      await client.mqtt.endAsync();
    }
  });

  it('refuse an acknowledgement by another device', async () => {
    const id = await command({ action: 'set_brightness', params: { level: 1 } });
    const other = await connect(await register());
    await other.listen();
    await other.send('cmd_ack', { command_id: id, status: 'succeeded' });
    await eventually(() => expect(other.received).toMatchObject([{ payload: { code: 'UNKNOWN_COMMAND' } }]));
    expect((await commandStatus(id))[0]).toBe('dispatched');
  });

  it('refuse replays by the device’s own window, across sessions', async () => {
    const first = await connect();
    await first.send('state', { state: { n: 1 } }, { sequence: 5, messageId: 'm5' });
    const second = await connect();
    await second.listen();
    await second.send('state', { state: { n: 1 } }, { sequence: 5, messageId: 'm5' });
    await second.send('state', { state: { n: 2 } }, { sequence: 5, messageId: 'another' });
    await eventually(() => expect(second.received).toMatchObject([{ payload: { code: 'SEQUENCE_REUSED' } }]));
    expect(await shown()).toMatchObject({ state: { n: 1 }, state_version: 1 });
  });

  it('disconnect when it is revoked, and connect again when it is reinstated', async () => {
    const client = await connect();
    await client.listen();
    expect((await mine.call('POST', `/device/${device.deviceId}/revoke`)).status).toBe(200);
    await client.closed();
    expect(await signIn(device)).toBe(REFUSED);
    const { body } = await mine.call('POST', `/device/${device.deviceId}/reinstate`, { reason: 'found' });
    service.clock.advance(1);
    expect(await signIn(device)).toBe(REFUSED);
    expect(await signIn({ ...device, secret: body.new_secret, keyVersion: body.key_version })).toBe(0);
  });

  it('commit no queued message under a key that a revocation ended', async () => {
    const { actors } = service.services;
    const post = actors.post.bind(actors);
    const queued: (() => void)[] = [];
    const queue = vi.spyOn(actors, 'post').mockImplementation((...sent) => {
      queued.push(() => post(...sent));
    });
    const client = await connect();
    const acknowledged: string[] = [];
    void client.send('state', { state: { n: 1 } }).then(
      () => acknowledged.push('the old message'),
      () => {},
    );
    await eventually(() => expect(queued).toHaveLength(1));
    queue.mockRestore();
    await mine.call('POST', `/device/${device.deviceId}/revoke`);
    await client.closed();
    const { body } = await mine.call('POST', `/device/${device.deviceId}/reinstate`, { reason: 'found' });
    const again = await connect({ ...device, secret: body.new_secret, keyVersion: body.key_version });
    for (const send of queued) send();
    // Queued after it in the device's mailbox.
    await again.send('heartbeat', {});
    expect(await shown()).toMatchObject({ state: {}, state_version: 0 });
    await again.send('state', { state: { n: 2 } });
    expect(await shown()).toMatchObject({ state: { n: 2 }, state_version: 1 });
    expect(acknowledged).toEqual([]);
  });

  it('continue through a rotation until the grace period ends', async () => {
    const client = await connect();
    const rotate = async () => (await mine.call('POST', `/device/${device.deviceId}/rotate-secret`)).body;
    const { new_secret: secret, key_version: keyVersion } = await rotate();
    await client.send('state', { state: { n: 1 } });
    expect(await signIn({ ...device, secret, keyVersion })).toBe(0);
    await client.closed();
    const again = await connect();
    await rotate();
    await again.closed();
    service.clock.advance(1);
    expect(await signIn(device)).toBe(REFUSED);
  });

  it('disconnect while the tenant is suspended', async () => {
    const client = await connect();
    const ref = { kind: 'tenant', id: mine.tenantId } as const;
    const at = service.clock.now();
    await service.runtime.actors.send(ref, { type: 'suspend', at });
    await client.closed();
    service.clock.advance(1);
    expect(await signIn(device)).toBe(REFUSED);
    await service.runtime.actors.send(ref, { type: 'resume', at });
    service.clock.advance(1);
    expect(await signIn(device)).toBe(0);
  });

  it('treat a deleted device as unknown', async () => {
    await mine.call('POST', `/device/${device.deviceId}/revoke`);
    expect((await mine.call('DELETE', `/devices/${device.deviceId}`)).status).toBe(204);
    expect(await signIn(device)).toBe(REFUSED);
  });
});

describe('a tenant user with a token', () => {
  it('receives messages of its devices, until the token is logged out', async () => {
    const password = mine.tokens.user;
    const mqtt = await connectAsync(`mqtt://127.0.0.1:${edge.port}`, { ...quiet, username: 'jwt', password }, false);
    mqtt.on('error', () => {});
    const received: string[] = [];
    mqtt.on('message', (topic) => received.push(topic));
    await mqtt.subscribeAsync(`proto/${mine.tenantId}/device/+/state`, { qos: 1 });
    const client = await connect();
    await client.send('state', { state: { n: 1 } });
    await eventually(() => expect(received).toEqual([client.topic('state')]));
    expect((await mine.call('POST', '/auth/logout', {}, { token: password })).status).toBe(200);
    await gone(mqtt);
  });

  it('requires the role user', async () => {
    expect(await connack(edge.port, { username: 'jwt', password: mine.tokens.viewer })).toBe(REFUSED);
    expect(await connack(edge.port, { username: 'jwt', password: mine.tokens.admin })).toBe(0);
    expect(await connack(edge.port, { username: 'jwt', password: `${mine.tokens.admin}x` })).toBe(REFUSED);
  });
});
