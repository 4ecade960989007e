import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventLoopTurns } from '../../support/clock.ts';
import { connack, credentials, Device, eventually, packets, quiet, Raw } from './client.ts';
import { EdgeHarness, type OpenMqttEdge, type TestDevice } from './edge-harness.ts';

const REFUSED = 5;
const UNAVAILABLE = 3;

describe('a sign-in of a device', () => {
  let service: EdgeHarness;
  let edge: OpenMqttEdge;

  beforeEach(async () => {
    service = new EdgeHarness();
    edge = await service.open();
  });
  afterEach(() => edge.close());

  const signIn = (options: Parameters<typeof connack>[1]) => connack(edge.port, options);

  it('is accepted with an HMAC key and with an Ed25519 key', async () => {
    for (const alg of ['hmac-sha256', 'ed25519'] as const) {
      const device = service.addDevice(undefined, alg);
      const client = await Device.connect(service, device, edge.port);
      expect(service.live.get(device.deviceId)).toMatchObject({ sessionId: client.clientId, keyVersion: 1 });
      await client.mqtt.endAsync();
    }
    expect(service.counted['sign-in device']).toBe(2);
  });

  it('is refused with a wrong password, an unknown device, another tenant, or nothing', async () => {
    const device = service.addDevice();
    const other = service.addDevice();
    const good = credentials(service, device);
    expect(await signIn({ ...good, password: credentials(service, other).password })).toBe(REFUSED);
    expect(await signIn({ ...good, password: 'x' })).toBe(REFUSED);
    expect(await signIn({ ...good, username: other.tenantId })).toBe(REFUSED);
    expect(await signIn({ ...good, username: 'not a uuid' })).toBe(REFUSED);
    expect(await signIn(credentials(service, { ...device, tenantId: other.tenantId }))).toBe(REFUSED);
    expect(await signIn(credentials(service, { ...device, deviceId: randomUUID() }))).toBe(REFUSED);
    expect(await signIn({ clientId: good.clientId })).toBe(REFUSED);
    expect(await signIn({ clientId: 'thermostat' })).toBe(REFUSED);
    expect(service.live.size).toBe(0);
    expect(await signIn(good)).toBe(0);
  });

  it('is accepted within 120 s of its token in both directions, also right after the start', async () => {
    const device = service.addDevice();
    for (const passed of [0, 600_000]) {
      service.now += passed;
      expect(await signIn(credentials(service, device, service.now - 120_001))).toBe(REFUSED);
      expect(await signIn(credentials(service, device, service.now + 120_001))).toBe(REFUSED);
      expect(await signIn(credentials(service, device, service.now - 120_000))).toBe(0);
      expect(await signIn(credentials(service, device, service.now + 120_000))).toBe(0);
    }
  });

  it('is accepted once with one token, also at the next process, and not before its use is durable', async () => {
    const device = service.addDevice();
    const used = credentials(service, device, service.now - 20_000);
    const marked = Promise.withResolvers<void>();
    service.marked = () => marked.promise;
    const answer = signIn(used);
    await eventually(() => service.lookups.length === 1);
    expect(service.live.size).toBe(0);
    marked.resolve();
    expect(await answer).toBe(0);
    await edge.close();
    edge = await service.open();
    expect(await signIn(used)).toBe(REFUSED);
    expect(await signIn(credentials(service, device, service.now - 20_000))).toBe(0);
  });

  it('is refused while the store cannot mark its token as used', async () => {
    service.marked = () => Promise.reject(new Error('away'));
    expect(await signIn(credentials(service, service.addDevice()))).toBe(UNAVAILABLE);
    expect(service.live.size).toBe(0);
  });

  it('is accepted once with one token, also concurrently', async () => {
    const device = service.addDevice();
    const good = credentials(service, device);
    const both = await Promise.all([signIn(good), signIn(good)]);
    expect(both.sort()).toEqual([0, REFUSED]);
    expect(await signIn(good)).toBe(REFUSED);
  });

  it('is refused with a will, and with a persistent session', async () => {
    const device = service.addDevice();
    const will = { topic: `proto/${device.tenantId}/device/${device.deviceId}/state`, payload: Buffer.from('x') };
    expect(await signIn({ ...credentials(service, device), will: { ...will, qos: 0, retain: false } })).toBe(REFUSED);
    expect(await signIn({ ...credentials(service, device), clean: false })).toBe(REFUSED);
    expect(service.received).toEqual([]);
  });

  it('is refused when the device is revoked or its tenant is suspended or unknown', async () => {
    const revoked = service.addDevice();
    service.row(revoked.deviceId).revoked = true;
    expect(await signIn(credentials(service, revoked))).toBe(REFUSED);
    const parked = service.addDevice();
    service.tenants.set(parked.tenantId, 'suspended');
    expect(await signIn(credentials(service, parked))).toBe(REFUSED);
    service.tenants.delete(parked.tenantId);
    expect(await signIn(credentials(service, parked))).toBe(REFUSED);
  });

  it('is refused when the device is revoked while its keys are looked up', async () => {
    const device = service.addDevice();
    service.lookup = async () => {
      service.lookup = async () => {};
      setImmediate(() => {
        service.row(device.deviceId).revoked = true;
      });
      await eventLoopTurns();
    };
    expect(await signIn(credentials(service, device))).toBe(REFUSED);
    expect(service.live.size).toBe(0);
  });

  /**
   * A sign-in that waits until its token is marked as used (`marked` completes that), while the device is passivated.
   */
  async function signInUntilMarked(device: TestDevice): Promise<{ answer: ReturnType<typeof signIn>; marked(): void }> {
    const { promise, resolve } = Promise.withResolvers<void>();
    let isMarking = false;
    service.marked = () => {
      isMarking = true;
      return promise;
    };
    const answer = signIn(credentials(service, device));
    await eventually(() => expect(isMarking).toBe(true));
    service.inMemory = false;
    return { answer, marked: resolve };
  }

  it.each(['revoked', 'suspended'])(
    'is refused when the device is %s and passivated while its token is marked as used',
    async (how) => {
      const device = service.addDevice();
      const { answer, marked } = await signInUntilMarked(device);
      if (how === 'revoked') service.row(device.deviceId).revoked = true;
      else service.tenants.set(device.tenantId, 'suspended');
      marked();
      expect(await answer).toBe(REFUSED);
      expect(service.live.size).toBe(0);
    },
  );

  it('is refused with a key that a revocation ended while its token was marked, although the device is reinstated', async () => {
    const device = service.addDevice();
    const { answer, marked } = await signInUntilMarked(device);
    const reinstated = service.reinstate(device.deviceId);
    marked();
    expect(await answer).toBe(REFUSED);
    expect(await signIn(credentials(service, reinstated))).toBe(0);
  });

  it('is accepted with the old key until its grace period ends', async () => {
    const old = service.addDevice();
    const current = service.rotate(old.deviceId, service.now + 1_000);
    expect(await signIn(credentials(service, current))).toBe(0);
    expect(await signIn(credentials(service, old))).toBe(0);
    service.now += 1_000;
    expect(await signIn(credentials(service, old))).toBe(REFUSED);
    expect(await signIn(credentials(service, current))).toBe(0);
  });

  it('with the old key opens a session that ends with the grace period', async () => {
    const old = service.addDevice();
    service.rotate(old.deviceId, service.now + 5_000);
    // The device is passivated: only the key's row contains the end of the grace period.
    service.inMemory = false;
    const client = await Device.connect(service, old, edge.port);
    service.now += 4_999;
    await client.send('heartbeat', {});
    service.now += 1;
    await eventually(() => expect(service.counted['closed expired']).toBe(1));
    await client.closed();
  });

  it('with a key that was rotated in the meantime opens a session for the grace period only', async () => {
    const device = service.addDevice();
    let release = () => {};
    service.lookup = () => new Promise((resolve) => (release = resolve));
    const connecting = Device.connect(service, device, edge.port);
    await eventually(() => expect(service.lookups.length).toBe(1));
    service.rotate(device.deviceId, service.now + 5_000);
    service.row(device.deviceId).keys = service.row(device.deviceId).keys.map((key) => ({ ...key, graceUntil: null }));
    release();
    const client = await connecting;
    service.now += 5_000;
    await client.closed();
    expect(service.counted['closed expired']).toBe(1);
  });

  it('is answered as unavailable when the store cannot answer', async () => {
    const device = service.addDevice();
    service.lookup = async () => {
      throw new Error('away');
    };
    expect(await signIn(credentials(service, device))).toBe(UNAVAILABLE);
    service.lookup = async () => {};
    expect(await signIn(credentials(service, device))).toBe(0);
  });

  it('needs few queries among many others', async () => {
    const devices = Array.from({ length: 40 }, () => service.addDevice());
    let release = () => {};
    service.lookup = () => new Promise((resolve) => (release = resolve));
    const clients = devices.map((device) => signIn(credentials(service, device)));
    await eventually(() => expect(edge.connections()).toBe(40));
    service.lookup = async () => {};
    release();
    expect(await Promise.all(clients)).toEqual(devices.map(() => 0));
    expect(service.lookups.length).toBeLessThan(6);
  });

  it('is accepted in MQTT 3.1.1 only', async () => {
    for (const version of [3, 5]) {
      const raw = await Raw.open(edge.port);
      raw.socket.write(packets.connect({ ...credentials(service, service.addDevice()), version }));
      await raw.closed();
      expect([...raw.bytes]).toEqual([0x20, 2, 0, 1]);
    }
  });

  it('with malformed UTF-8 or NUL in its identifier is closed without an answer, and without an identifier refused', async () => {
    const { clientId, username, password } = credentials(service, service.addDevice());
    const names = [
      { clientId: Buffer.concat([Buffer.from(clientId), Buffer.from([0])]), username, password },
      { clientId: Buffer.concat([Buffer.from(clientId), Buffer.from([0xff])]), username, password },
      { clientId, username: Buffer.concat([Buffer.from(username), Buffer.from([0])]), password },
      { clientId: '', username, password },
    ];
    const answers: number[][] = [];
    for (const name of names) {
      const raw = await Raw.open(edge.port);
      raw.socket.write(packets.connect(name));
      await raw.closed();
      answers.push([...raw.bytes]);
    }
    expect(answers).toEqual([[], [], [], [0x20, 2, 0, REFUSED]]);
  });

  it('again closes the older connection without taking the new one offline', async () => {
    const device = service.addDevice();
    const first = await Device.connect(service, device, edge.port);
    service.now += 1;
    const second = await Device.connect(service, device, edge.port);
    await first.closed();
    expect(service.closed).toContain(first.clientId);
    expect(service.live.get(device.deviceId)?.sessionId).toBe(second.clientId);
    expect(second.mqtt.connected).toBe(true);
    await second.mqtt.endAsync();
    await eventually(() => expect(service.live.size).toBe(0));
  });

  it('cannot take the place of another by its client identifier', async () => {
    const device = service.addDevice();
    const client = await Device.connect(service, device, edge.port);
    const thief = credentials(service, service.addDevice());
    expect(await signIn({ ...thief, clientId: client.clientId })).toBe(REFUSED);
    service.users.set('token', { tenantId: device.tenantId, userId: 'u', expiresAt: null, role: 'user', scopes: null });
    expect(await signIn({ clientId: client.clientId, username: 'jwt', password: 'token' })).toBe(0);
    await client.send('heartbeat', {});
    expect(client.mqtt.connected).toBe(true);
    await client.mqtt.endAsync();
  });

  it('is followed by the end of the connection on a second CONNECT', async () => {
    const device = service.addDevice();
    const { raw } = await Raw.signedIn(service, device, edge.port);
    raw.socket.write(packets.connect(credentials(service, device)));
    await raw.closed();
    await eventually(() => expect(service.live.size).toBe(0));
  });
});

describe('failed sign-ins', () => {
  it('are delayed once an address had too many, and successful ones never', async () => {
    const service = new EdgeHarness();
    const edge = await service.open({ limits: { failedSignInsPerMinute: 5 } });
    const device = service.addDevice();
    const bad = { ...quiet, ...credentials(service, device), password: 'x' };
    for (let i = 0; i < 5; i++) expect(await connack(edge.port, bad)).toBe(REFUSED);
    let answered = false;
    const late = connack(edge.port, bad).then(() => {
      answered = true;
    });
    expect(await connack(edge.port, credentials(service, device))).toBe(0);
    expect(answered).toBe(false);
    await edge.close();
    await late;
  });
});

describe('before the sign-in, a peer', () => {
  const open = async (limits = {}) => {
    const service = new EdgeHarness();
    return { service, edge: await service.open({ limits }) };
  };

  it('is disconnected when its CONNECT exceeds 4 KiB, before that is read', async () => {
    const { edge, service } = await open();
    const raw = await Raw.open(edge.port);
    raw.socket.write(Buffer.from([0x10, 0xff, 0xff, 0xff, 0x7f]));
    await raw.closed();
    expect(service.counted['closed oversized']).toBe(1);
    await edge.close();
  });

  it('may send nothing except a CONNECT', async () => {
    const { edge } = await open();
    for (const bytes of [packets.ping, packets.publish('x', 'y'), Buffer.from('GET / HTTP/1.1\r\n\r\n')]) {
      const raw = await Raw.open(edge.port);
      raw.socket.write(bytes);
      await raw.closed();
      expect(raw.bytes.length).toBe(0);
    }
    await edge.close();
  });

  it('is disconnected when its CONNECT is not complete in time', async () => {
    const { edge } = await open({ connectMs: 50 });
    const silent = await Raw.open(edge.port);
    const slow = await Raw.open(edge.port);
    slow.socket.write(Buffer.from([0x10, 100, 0, 4]));
    await silent.closed();
    await slow.closed();
    await edge.close();
  });

  it('has nothing read after its CONNECT, and everything read after the sign-in', async () => {
    const { edge, service } = await open();
    const device = service.addDevice();
    let release = () => {};
    service.lookup = () => new Promise((resolve) => (release = resolve));
    const raw = await Raw.open(edge.port);
    const pings = Buffer.concat(Array.from({ length: 1_000 }, () => packets.ping));
    raw.socket.write(Buffer.concat([packets.connect(credentials(service, device)), pings]));
    await eventually(() => expect(service.lookups.length).toBe(1));
    release();
    await eventually(() => expect(raw.bytes.length).toBe(4 + 2_000));
    raw.socket.destroy();
    await edge.close();
  });

  it('is disconnected when it sends much after its CONNECT', async () => {
    const { edge, service } = await open();
    service.lookup = () => new Promise(() => {});
    const raw = await Raw.open(edge.port);
    raw.socket.write(packets.connect(credentials(service, service.addDevice())));
    raw.socket.write(Buffer.alloc(20_000, packets.ping));
    await raw.closed();
    expect(service.counted['closed oversized']).toBe(1);
    await edge.close();
  });

  it('is refused above the maximum number of signed-in connections', async () => {
    const service = new EdgeHarness();
    const edge = await service.open({
      settings: {
        host: '127.0.0.1',
        port: 0,
        tls: null,
        maxConnections: 2,
        deviceRate: { perSecond: 50, burst: 500 },
      },
    });
    const tenant = service.addTenant();
    const devices: Device[] = [];
    for (let n = 0; n < 2; n += 1) devices.push(await Device.connect(service, service.addDevice(tenant), edge.port));
    const third = await Raw.open(edge.port);
    await third.closed();
    expect(devices.map(({ mqtt }) => mqtt.connected)).toEqual([true, true]);
    await devices[0]?.mqtt.endAsync();
    await eventually(() => expect(edge.connections()).toBe(1));
    const next = await Device.connect(service, service.addDevice(tenant), edge.port);
    await Promise.all([devices[1], next].map((one) => one?.mqtt.endAsync()));
    await edge.close();
  });
});
