import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { VolatileOutput } from '../../../src/machines/outputs.ts';
import { eventLoopTurns } from '../../support/clock.ts';
import { credentials, Device, eventually, packets, Raw } from './client.ts';
import { EdgeHarness, type OpenMqttEdge, type TestDevice } from './edge-harness.ts';

let service: EdgeHarness;
let edge: OpenMqttEdge;
let device: TestDevice;

beforeEach(() => {
  service = new EdgeHarness();
  device = service.addDevice();
});
afterEach(() => edge.close());

const write = (sessionId: string, to: TestDevice, bytes: number): VolatileOutput => ({
  type: 'command.write',
  tenantId: to.tenantId,
  deviceId: to.deviceId,
  commandId: '0190b4f3-0000-7000-8000-000000000000',
  sessionId,
  critical: false,
  message: {
    messageId: 'm',
    requestId: 'r',
    action: 'show',
    params: { text: 'x'.repeat(bytes) },
    issuedAt: service.now,
    expiresAt: service.now + 60_000,
  },
});

/** A socket of a device that is subscribed to its `cmd` topic. */
async function subscribed(of: TestDevice) {
  const { raw, clientId } = await Raw.signedIn(service, of, edge.port);
  raw.socket.write(packets.subscribe(1, `proto/${of.tenantId}/device/${of.deviceId}/cmd`));
  await eventually(() => expect(raw.bytes.length).toBe(5));
  return { raw, clientId };
}

describe('a device that stops reading', () => {
  it('is disconnected when too much is queued for it, without affecting the others', async () => {
    edge = await service.open({ limits: { queuedBytes: 200_000 } });
    const frozen = await Promise.all([service.addDevice(), service.addDevice(), service.addDevice()].map(subscribed));
    for (const { raw } of frozen) raw.socket.pause();
    const live = await Device.connect(service, device, edge.port);
    await live.listen();
    let sent = 0;
    while ((service.counted['closed slow'] ?? 0) < 3) {
      for (const row of service.rows.values()) {
        const session = service.live.get(row.device.deviceId);
        if (session !== undefined) service.emit(write(session.sessionId, row.device, 20_000));
      }
      sent += 1;
      await new Promise(setImmediate);
      expect(sent).toBeLessThan(2_000);
    }
    await live.send('heartbeat', {});
    await eventually(() => expect(live.received).toHaveLength(sent));
    for (const { raw } of frozen) raw.socket.destroy();
  });

  it('is disconnected when it reads nothing for too long, for any queue size', async () => {
    edge = await service.open({ limits: { stallMs: 100, queuedBytes: 64 * 1_048_576 } });
    const { raw, clientId } = await subscribed(device);
    raw.socket.pause();
    // More than the socket buffers of both ends can hold.
    for (let n = 0; n < 800; n++) service.emit(write(clientId, device, 20_000));
    await eventually(() => expect(service.counted['closed slow']).toBe(1));
    raw.socket.destroy();
  });

  it('is not read itself, so that its answers cannot accumulate', async () => {
    edge = await service.open({ limits: { stallMs: 60_000, queuedBytes: 64 * 1_048_576 } });
    const { raw, clientId } = await subscribed(device);
    raw.socket.pause();
    for (let n = 0; n < 800; n++) service.emit(write(clientId, device, 20_000));
    const pings = Buffer.concat(Array.from({ length: 1_000 }, () => packets.ping));
    raw.socket.write(pings);
    await eventLoopTurns();
    raw.socket.resume();
    const written = 5 + (service.counted['written cmd'] ?? 0) * 20_000;
    await eventually(() => expect(raw.bytes.subarray(-2_000).equals(pongs(1_000))).toBe(true));
    expect(raw.bytes.length).toBeGreaterThan(written);
    raw.socket.destroy();
  });
});

const pongs = (count: number) => Buffer.concat(Array.from({ length: count }, () => Buffer.from([0xd0, 0])));

describe('a device that disconnects', () => {
  it('with a backlog does not affect others', async () => {
    edge = await service.open();
    const live = await Device.connect(service, device, edge.port);
    await live.listen();
    for (let round = 0; round < 5; round++) {
      const other = service.addDevice(device.tenantId);
      const { raw, clientId } = await subscribed(other);
      raw.socket.pause();
      for (let n = 0; n < 40; n++) service.emit(write(clientId, other, 20_000));
      raw.socket.destroy();
    }
    await eventually(() => expect(edge.connections()).toBe(1));
    service.emit(write(live.clientId, device, 10));
    await eventually(() => expect(live.received).toHaveLength(1));
  });
});

describe('clients that flood', () => {
  it('and are killed during the flood leave a working service, without loss of acknowledged messages', async () => {
    edge = await service.open();
    const floods = await Promise.all(
      Array.from({ length: 50 }, () => Device.connect(service, service.addDevice(), edge.port)),
    );
    let acknowledged = 0;
    for (const client of floods) {
      for (let n = 0; n < 100; n++) {
        void client.send('state', { state: { n } }).then(
          () => (acknowledged += 1),
          () => {},
        );
      }
    }
    await eventually(() => expect(acknowledged).toBeGreaterThan(500));
    for (const { mqtt } of floods) mqtt.stream.destroy();
    await eventually(() => expect(edge.connections()).toBe(0));
    expect(service.received.length).toBeGreaterThanOrEqual(acknowledged);
    const client = await Device.connect(service, device, edge.port);
    await client.send('state', { state: {} });
  });

  it('with packets in pieces, a byte at a time, are read normally', async () => {
    edge = await service.open();
    const { raw, clientId } = await Raw.signedIn(service, device, edge.port);
    const helper = await Device.connect(service, service.addDevice(), edge.port);
    const own = helper.as(device, clientId);
    const bytes = Buffer.concat(
      [1, 2].map((id) => packets.publish(own.topic('state'), own.compose('state', { state: {} }), { id })),
    );
    raw.socket.setNoDelay(true);
    for (const byte of bytes) {
      raw.socket.write(Buffer.from([byte]));
      await new Promise(setImmediate);
    }
    await eventually(() => expect([...raw.bytes]).toEqual([0x40, 2, 0, 1, 0x40, 2, 0, 2]));
    raw.socket.destroy();
  });

  it('with PUBACKs between their packets, complete or in pieces, are read past them', async () => {
    edge = await service.open();
    const { raw, clientId } = await Raw.signedIn(service, device, edge.port);
    const helper = await Device.connect(service, service.addDevice(), edge.port);
    const own = helper.as(device, clientId);
    const state = (id: number) => packets.publish(own.topic('state'), own.compose('state', { state: {} }), { id });
    const puback = Buffer.from([0x40, 2, 0xff, 0x31]);
    const bytes = Buffer.concat([
      ...[puback, puback, state(1), puback, packets.ping, puback],
      ...[packets.subscribe(7, own.topic('cmd')), state(2), puback, packets.ping, puback, state(3)],
    ]);
    raw.socket.setNoDelay(true);
    for (const step of [bytes.length, 1, 3, 5]) {
      raw.bytes = Buffer.alloc(0);
      for (let at = 0; at < bytes.length; at += step) {
        raw.socket.write(bytes.subarray(at, at + step));
        await new Promise(setImmediate);
      }
      await eventually(() => expect(raw.bytes.length).toBe(3 * 4 + 2 * 2 + 5));
      expect([1, 2, 3].every((id) => raw.bytes.includes(Buffer.from([0x40, 2, 0, id])))).toBe(true);
    }
    raw.socket.destroy();
  });

  it('with invalid data are disconnected one by one, without other effects', async () => {
    edge = await service.open();
    for (const bytes of [
      Buffer.from([0x32, 0xff, 0xff, 0xff, 0xff, 0x7f]),
      Buffer.from([0x32, 0]),
      Buffer.from([0x32, 2, 0xff, 0xff]),
      Buffer.from([0x80, 4, 0, 1, 0, 0]),
      Buffer.from([0x40, 0]),
      Buffer.from([0x40, 3, 0, 1, 0]),
      Buffer.from([0x41, 2, 0, 1]),
      Buffer.alloc(1_000, 0xff),
      Buffer.alloc(1_000),
    ]) {
      service.now += 1;
      const { raw } = await Raw.signedIn(service, device, edge.port);
      raw.socket.write(bytes);
      await raw.closed();
    }
    expect(service.received).toEqual([]);
  });
});

describe('a packet without topic filters', () => {
  it.each([
    ['SUBSCRIBE', Buffer.from([0x82, 2, 0, 1])],
    ['UNSUBSCRIBE', Buffer.from([0xa2, 2, 0, 1])],
    ['SUBSCRIBE, without a packet identifier', Buffer.from([0x82, 0])],
    ['UNSUBSCRIBE, without a packet identifier', Buffer.from([0xa2, 0])],
  ])('ends the connection without an answer as a protocol violation: %s', async (_name, bytes) => {
    edge = await service.open();
    for (const pieces of [[bytes], [...bytes].map((byte) => Buffer.of(byte))]) {
      service.now += 1;
      const { raw } = await Raw.signedIn(service, device, edge.port);
      raw.socket.setNoDelay(true);
      for (const piece of pieces) {
        raw.socket.write(piece);
        await new Promise(setImmediate);
      }
      await raw.closed();
      expect(raw.bytes).toEqual(Buffer.alloc(0));
    }
    expect(service.counted['closed protocol']).toBe(2);
  });
});

describe('keep-alive', () => {
  const connected = async (keepalive: number) => {
    service.now += 1;
    const raw = await Raw.open(edge.port);
    const { clientId, username, password } = credentials(service, device);
    raw.socket.write(packets.connect({ clientId, username, password, keepalive }));
    await eventually(() => expect(raw.bytes.length).toBe(4));
    return { raw, clientId };
  };

  it('a peer that is silent for one and a half times as long is disconnected', async () => {
    edge = await service.open();
    const started = performance.now();
    const { raw } = await connected(1);
    await raw.closed();
    expect(performance.now() - started).toBeGreaterThan(1_400);
    expect(service.counted['closed silent']).toBe(1);
  });

  it('messages and pings both count, and a delay by the service does not count as silence', async () => {
    edge = await service.open({
      settings: {
        host: '127.0.0.1',
        port: 0,
        tls: null,
        maxConnections: 10,
        deviceRate: { perSecond: 0.5, burst: 3 },
      },
    });
    const { clientId, username, password } = credentials(service, device);
    const helper = await Device.connect(service, service.addDevice(), edge.port);
    const own = helper.as(device, clientId);
    const sent = [1, 2, 3, 4].map((id) =>
      packets.publish(own.topic('state'), own.compose('state', { state: {} }), { id }),
    );
    const raw = await Raw.open(edge.port);
    raw.socket.write(Buffer.concat([packets.connect({ clientId, username, password, keepalive: 1 }), ...sent]));
    await eventually(() => expect(raw.bytes.length).toBe(4 + 12));
    // A connection closed by the keep-alive would not get this last response, which comes after two seconds.
    await eventually(() => expect(raw.bytes.length).toBe(4 + 16));
    raw.socket.destroy();
  });

  it('a packet that arrived while the process was busy counts', async () => {
    edge = await service.open();
    const { raw } = await connected(1);
    // From here the event loop runs due timers first and reads sockets afterwards.
    await new Promise(setImmediate);
    raw.socket.write(packets.ping);
    const until = performance.now() + 1_700;
    while (performance.now() < until);
    await eventually(() => expect(raw.bytes.length).toBe(4 + 2));
    raw.socket.destroy();
  });

  it('0 disables it', async () => {
    edge = await service.open();
    const { raw } = await connected(0);
    await eventLoopTurns();
    raw.socket.write(packets.ping);
    await eventually(() => expect(raw.bytes.length).toBe(4 + 2));
    expect(raw.ended).toBe(false);
    raw.socket.destroy();
  });
});
