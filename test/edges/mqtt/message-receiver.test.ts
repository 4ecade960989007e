import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EventFailed, Overloaded, Quarantined } from '../../../src/actors/contract.ts';
import type { JsonSpan } from '../../../src/domain/json/span.ts';
import type { MqttEdge } from '../../../src/edges/mqtt/edge.ts';
import { SESSION_LIFE_MS } from '../../../src/protocol/constants.ts';
import { DataRefused, StoreUnavailable } from '../../../src/store/contract.ts';
import { eventLoopTurns } from '../../support/clock.ts';
import { spanText } from '../../support/json-span.ts';
import { Device, eventually, packets, Raw } from './client.ts';
import { House, type TestDevice } from './edge-harness.ts';

let house: House;
let edge: MqttEdge;
let device: TestDevice;

const open = async (parts: Parameters<House['open']>[0] = {}) => {
  edge = await house.open(parts);
  return Device.connect(house, device, edge.port);
};

beforeEach(() => {
  house = new House();
  device = house.addDevice();
});
afterEach(() => edge.close());

/** A latch: each call of `wait` blocks until the test opens it. */
function latch() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, wait: () => opened };
}

const slow = (perSecond: number, burst: number) => ({
  host: '127.0.0.1',
  port: 0,
  tls: null,
  maxConnections: 10,
  deviceRate: { perSecond, burst },
});

describe('a message', () => {
  it('becomes one event of its device, with who, when and which', async () => {
    const client = await open({ watches: () => [{ commandId: 'c', expected: {}, seen: false }] });
    const messageId = randomUUID();
    await client.say('hello', { protocol: 'PROTO/3.1', firmware: '1.2.3' });
    await client.say('heartbeat', { battery: 80 });
    await client.say('state', { state: { on: true } }, { messageId });
    await client.say('state', { state: {}, full: true });
    const by = { kind: 'device', id: device.deviceId, via: 'mqtt' };
    const at = house.now;
    expect(house.received.map(({ event }) => event)).toMatchObject([
      { type: 'hello.received', firmware: '1.2.3', by, at },
      { type: 'heartbeat.received', mark: { sequenceNumber: 2 }, by, at },
      {
        type: 'state.reported',
        state: { on: true },
        full: false,
        mark: { sequenceNumber: 3, messageId },
        watches: [{ commandId: 'c' }],
      },
      { type: 'state.reported', state: {}, full: true },
    ]);
    expect(house.seen).toHaveLength(4);
    expect(house.seen[1]).toEqual({ deviceId: device.deviceId, battery: 80 });
  });

  it('with a state brings its text along, where it is all that the message says', async () => {
    const client = await open();
    await client.say('state', { state: { on: true, name: 'Küche' } });
    await client.say('state', { state: { on: false }, full: true });
    await client.say('state', { state: { on: true }, and: 'more' });
    await client.say('state', { state: { name: '"' } });
    const written = house
      .events('state.reported')
      .map((event) => (event as { written?: JsonSpan }).written)
      .map((span) => span && spanText(span));
    expect(written).toEqual(['{"name":"Küche","on":true}', '{"on":false}', undefined, undefined]);
  });

  it('is acknowledged when its commit is durable, not before', async () => {
    const client = await open();
    const { open: commit, wait } = latch();
    house.commit = wait;
    let acknowledged = false;
    const said = client.say('state', { state: { a: 1 } }).then(() => {
      acknowledged = true;
    });
    await eventually(() => expect(house.received).toHaveLength(1));
    await client.ping();
    expect(acknowledged).toBe(false);
    commit();
    await said;
  });

  it('in QoS 0 has the same effect and no acknowledgement', async () => {
    edge = await house.open();
    const { raw, clientId } = await Raw.signedIn(house, device, edge.port);
    const client = await signer(clientId);
    raw.socket.write(packets.publish(client.topic('state'), client.compose('state', { state: {} }), { qos: 0 }));
    await eventually(() => expect(house.events('state.reported')).toHaveLength(1));
    raw.socket.write(packets.ping);
    await eventually(() => expect([...raw.bytes]).toEqual([0xd0, 0]));
    raw.socket.destroy();
  });

  it('in QoS 0 counts even when its sender leaves with it', async () => {
    edge = await house.open();
    const { raw, clientId } = await Raw.signedIn(house, device, edge.port);
    const client = await signer(clientId);
    const said = Array.from({ length: 30 }, (_, n) =>
      packets.publish(client.topic('state'), client.compose('state', { state: { n } }), { qos: 0 }),
    );
    raw.socket.end(Buffer.concat([...said, packets.disconnect]));
    await eventually(() => expect(house.events('state.reported')).toHaveLength(30));
    await eventually(() => expect(house.live.size).toBe(0));
  });

  it('is not taken after the end of its session, before the periodic check has ended that', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      const client = await open();
      house.now += SESSION_LIFE_MS - 1;
      await client.say('state', { state: { n: 1 } });
      house.now += 1;
      void client.say('state', { state: { n: 2 } }).catch(() => {});
      await eventually(() => expect(house.counted['closed expired']).toBe(1));
      expect(house.events('state.reported')).toHaveLength(1);
    } finally {
      await edge.close();
      vi.useRealTimers();
    }
  });

  it('said twice is acknowledged twice and forwarded once', async () => {
    const client = await open();
    const messageId = randomUUID();
    await client.say('state', { state: { a: 1 } }, { sequence: 1, messageId });
    await client.say('state', { state: { a: 1 } }, { sequence: 1, messageId });
    expect(house.counted).not.toHaveProperty('refused SEQUENCE_REUSED');
  });

  /** Composes messages for a session on a raw socket. */
  async function signer(clientId: string) {
    const other = await Device.connect(house, house.addDevice(), edge.port);
    await other.mqtt.endAsync();
    return other.as(device, clientId);
  }
});

describe('many messages of one connection', () => {
  it('are in flight together and reach the actor in order', async () => {
    const client = await open();
    const { open: commit, wait } = latch();
    house.commit = wait;
    const said = Array.from({ length: 20 }, (_, n) => client.say('state', { state: { n } }));
    await eventually(() => expect(house.received).toHaveLength(20));
    expect(house.events('state.reported').map((event) => (event as unknown as { state: object }).state)).toEqual(
      Array.from({ length: 20 }, (_, n) => ({ n })),
    );
    commit();
    await Promise.all(said);
  });

  it('are acknowledged in their order, whichever was durable first', async () => {
    const client = await open();
    const first = latch();
    house.commit = async ({ event }) => {
      if ((event as unknown as { mark: { sequenceNumber: number } }).mark.sequenceNumber === 1) await first.wait();
    };
    const order: number[] = [];
    const said = [1, 2, 3].map((n) => client.say('state', { state: { n } }).then(() => order.push(n)));
    await client.mqtt.publishAsync(client.topic('state'), 'not even JSON', { qos: 0 });
    await eventually(() => expect(house.received).toHaveLength(3));
    await client.ping();
    expect(order).toEqual([]);
    first.open();
    await Promise.all(said);
    expect(order).toEqual([1, 2, 3]);
  });

  it('are not read beyond 32 in flight, and none is lost', async () => {
    const client = await open();
    const { open: commit, wait } = latch();
    house.commit = wait;
    const said = Array.from({ length: 100 }, (_, n) => client.say('state', { state: { n } }));
    await eventually(() => expect(house.received).toHaveLength(32));
    await eventLoopTurns();
    expect(house.received).toHaveLength(32);
    commit();
    await Promise.all(said);
    expect(house.received).toHaveLength(100);
  });

  it('beyond the rate of the device wait in its socket', async () => {
    const client = await open({ settings: slow(100, 10) });
    const started = performance.now();
    await Promise.all(Array.from({ length: 30 }, (_, n) => client.say('state', { state: { n } })));
    expect(performance.now() - started).toBeGreaterThan(150);
    expect(house.received).toHaveLength(30);
  });

  it('beyond the rate hold up nobody else’s', async () => {
    const client = await open({ settings: slow(0.001, 5) });
    const said = Array.from({ length: 20 }, (_, n) => client.say('state', { state: { n } }));
    for (const late of said) late.catch(() => {});
    const neighbour = await Device.connect(house, house.addDevice(device.tenantId), edge.port);
    for (let n = 0; n < 5; n++) await neighbour.say('state', { state: { n } });
    expect(house.received.filter(({ ref }) => ref.id === neighbour.device.deviceId)).toHaveLength(5);
    expect(house.received.filter(({ ref }) => ref.id === device.deviceId).length).toBeLessThanOrEqual(5);
  });

  it('get no new burst by signing in again', async () => {
    const first = await open({ settings: slow(0.001, 5) });
    for (let n = 0; n < 5; n++) await first.say('state', { state: { n } });
    house.now += 1;
    const second = await Device.connect(house, device, edge.port);
    void second.say('state', { state: {} }).catch(() => {});
    const neighbour = await Device.connect(house, house.addDevice(device.tenantId), edge.port);
    await neighbour.say('state', { state: {} });
    expect(house.received.filter(({ ref }) => ref.id === device.deviceId)).toHaveLength(5);
  });

  it('wait while the runtime is overloaded, and then go on in order', async () => {
    const client = await open();
    let full = true;
    let refused = 0;
    house.commit = async (received) => {
      if (!full) return;
      refused += 1;
      house.received.splice(house.received.indexOf(received), 1);
      throw new Overloaded('full');
    };
    const said = Array.from({ length: 60 }, (_, n) => client.say('state', { state: { n } }));
    await eventually(() => expect(refused).toBeGreaterThan(2));
    await eventLoopTurns();
    expect(house.received).toEqual([]);
    full = false;
    await Promise.all(said);
    expect(
      house.events('state.reported').map((event) => (event as unknown as { state: { n: number } }).state.n),
    ).toEqual(Array.from({ length: 60 }, (_, n) => n));
  });

  it.each(['before', 'after'])(
    'are not retried once their connection is gone, where the runtime refused them %s that',
    async (when) => {
      const client = await open();
      const { open: refuse, wait } = latch();
      let refused = 0;
      house.commit = async () => {
        if (when === 'after') await wait();
        refused += 1;
        throw new Overloaded('full');
      };
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      try {
        for (let n = 0; n < 3; n++) void client.say('state', { state: { n } }).catch(() => {});
        await turnsUntil(() => house.received.length === 3 && (when === 'after' || refused === 3));
        client.mqtt.stream.destroy();
        await turnsUntil(() => house.closed.includes(client.clientId));
        refuse();
        await turnsUntil(() => refused === 3);
        await vi.advanceTimersByTimeAsync(60_000);
        await eventLoopTurns();
        expect(refused).toBe(3);
      } finally {
        vi.useRealTimers();
      }
    },
  );
});

/** Polls without timers, because the test has replaced the timer that `eventually` uses. */
async function turnsUntil(check: () => boolean): Promise<void> {
  const until = performance.now() + 8_000;
  while (!check() && performance.now() < until) await eventLoopTurns(1);
  expect(check()).toBe(true);
}

describe('an acknowledgement of a command', () => {
  const known = () => {
    const id = randomUUID();
    house.commands.set(id, { deviceId: device.deviceId });
    return id;
  };

  it('carries its word, and whether the command is this device’s', async () => {
    const client = await open();
    const mine = known();
    const others = randomUUID();
    house.commands.set(others, { deviceId: randomUUID() });
    await client.say('cmd_ack', { command_id: mine, status: 'in_progress', progress: 40, state: { a: 1 } });
    await client.say('cmd_ack', { command_id: mine, status: 'failed', error: 'jammed', result: [1] });
    await client.say('cmd_ack', { command_id: others, status: 'accepted' });
    await client.say('cmd_ack', { command_id: randomUUID(), status: 'accepted' });
    await client.say('cmd_ack', { command_id: 'x', status: 'accepted' });
    expect(house.events('ack.reported')).toMatchObject([
      { commandId: mine, known: true, ack: { status: 'in_progress', progress: 40 }, state: { a: 1 } },
      { commandId: mine, known: true, ack: { status: 'failed', error: 'jammed', result: [1] } },
      { commandId: others, known: false },
      { known: false },
      { commandId: 'x', known: false },
    ]);
    expect(house.counted['refused UNKNOWN_COMMAND']).toBe(3);
  });

  it('is acknowledged when the command has it too', async () => {
    const client = await open();
    const { open: tell, wait } = latch();
    house.told = wait;
    let acknowledged = false;
    const said = client.say('cmd_ack', { command_id: known(), status: 'succeeded' }).then(() => {
      acknowledged = true;
    });
    await eventually(() => expect(house.seen).toHaveLength(1));
    await client.ping();
    expect(acknowledged).toBe(false);
    tell();
    await said;
  });

  it('whose command must be read first counts even when its sender leaves with it', async () => {
    edge = await house.open();
    house.inMemory = false;
    const { raw, clientId } = await Raw.signedIn(house, device, edge.port);
    const other = await Device.connect(house, house.addDevice(), edge.port);
    const client = other.as(device, clientId);
    const { open: read, wait } = latch();
    house.reads = wait;
    const sent = [
      client.compose('cmd_ack', { command_id: known(), status: 'accepted' }),
      client.compose('heartbeat', {}),
    ];
    const topics = [client.topic('cmd_ack'), client.topic('heartbeat')];
    const frames = sent.map((text, n) => packets.publish(topics[n] as string, text, { qos: 0 }));
    raw.socket.end(Buffer.concat([...frames, packets.disconnect]));
    await eventually(() => expect(house.closed).toContain(clientId));
    expect(house.received).toEqual([]);
    read();
    await eventually(() =>
      expect(house.received.map(({ event }) => event.type)).toEqual(['ack.reported', 'heartbeat.received']),
    );
  });

  it('whose command must be read first does not let later messages pass it', async () => {
    const client = await open();
    house.inMemory = false;
    const said = [
      client.say('state', { state: { n: 1 } }),
      client.say('cmd_ack', { command_id: known(), status: 'accepted' }),
      client.say('state', { state: { n: 2 } }),
      client.say('cmd_ack', { command_id: known(), status: 'accepted' }),
      client.say('heartbeat', {}),
    ];
    await Promise.all(said);
    expect(house.received.map(({ event }) => event.type)).toEqual([
      'state.reported',
      'ack.reported',
      'state.reported',
      'ack.reported',
      'heartbeat.received',
    ]);
  });
});

describe('when a message cannot be kept', () => {
  it.each([new StoreUnavailable('away'), new EventFailed('thrown'), new Quarantined('by an operator')])(
    'its session ends without acknowledging it or what came after: %s',
    async (fault) => {
      const client = await open({ limits: { closeJitterMs: 50 } });
      house.commit = async ({ event }) => {
        if ((event as unknown as { mark: { sequenceNumber: number } }).mark.sequenceNumber === 2) throw fault;
      };
      const acknowledged: number[] = [];
      for (const n of [1, 2, 3]) {
        void client.say('state', { state: { n } }).then(
          () => acknowledged.push(n),
          () => {},
        );
      }
      await client.closed();
      expect(acknowledged).toEqual([1]);
      expect(house.counted['closed failed']).toBe(1);
    },
  );

  it('and neither does one whose command was not told', async () => {
    const client = await open({ limits: { closeJitterMs: 50 } });
    const id = randomUUID();
    house.commands.set(id, { deviceId: device.deviceId });
    house.told = async () => {
      throw new StoreUnavailable('away');
    };
    void client.say('cmd_ack', { command_id: id, status: 'accepted' }).catch(() => {});
    await client.closed();
    expect(house.counted['closed failed']).toBe(1);
  });

  it('sessions end spread over time, reading nothing until then', async () => {
    edge = await house.open({ limits: { closeJitterMs: 2_000 } });
    const clients = await Promise.all(
      Array.from({ length: 20 }, () => Device.connect(house, house.addDevice(), edge.port)),
    );
    house.commit = async () => {
      throw new StoreUnavailable('away');
    };
    const sayAll = () => {
      for (const client of clients) void client.say('state', { state: {} }).catch(() => {});
    };
    let drawn = 0;
    vi.spyOn(Math, 'random').mockImplementation(() => (drawn++ % 20) / 20);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      sayAll();
      await turnsUntil(() => drawn >= 20);
      expect([house.received.length, drawn]).toEqual([20, 20]);
      expect(house.counted['closed failed']).toBeUndefined();
      sayAll();
      vi.advanceTimersByTime(950);
      await turnsUntil(() => clients.filter(({ mqtt }) => !mqtt.connected).length === 10);
      expect(house.counted['closed failed']).toBe(10);
      vi.advanceTimersByTime(950);
      await turnsUntil(() => clients.every(({ mqtt }) => !mqtt.connected));
      expect(house.counted['closed failed']).toBe(20);
      expect(house.received).toHaveLength(20);
    } finally {
      vi.useRealTimers();
    }
  });

  it('for its data alone, it is refused and told so', async () => {
    const client = await open();
    await client.listen();
    house.commit = async () => {
      throw new EventFailed('no', { cause: new DataRefused('22003', 'no') });
    };
    await client.say('state', { state: {} });
    await eventually(() =>
      expect(client.told).toMatchObject([{ type: 'error', payload: { code: 'PAYLOAD_INVALID' } }]),
    );
  });

  it('because the device is gone or was revoked, its session ends at once', async () => {
    const client = await open();
    house.row(device.deviceId).revoked = true;
    void client.say('state', { state: {} }).catch(() => {});
    await client.closed();
    const other = house.addDevice();
    const second = await Device.connect(house, other, edge.port);
    house.rows.delete(other.deviceId);
    void second.say('state', { state: {} }).catch(() => {});
    await second.closed();
    expect(house.counted['closed ended']).toBe(2);
  });
});

describe('what no session may do closes the connection without an acknowledgement', () => {
  const other = '0190b4f3-0000-7000-8000-000000000000';
  const topics: [string, (own: string) => string][] = [
    ['its own cmd', (own) => `${own}/cmd`],
    ['another channel', (own) => `${own}/firmware`],
    ['a level more', (own) => `${own}/state/x`],
    ['a level less', (own) => own],
    ['another device', (own) => `${own.slice(0, -36)}${other}/state`],
    ['another tenant', (own) => `${own.replace(/proto\/[^/]+/, `proto/${other}`)}/state`],
    ['$SYS', () => '$SYS/broker/heartbeat'],
    ['a wildcard', (own) => `${own}/+`],
    ['an empty topic', () => ''],
    ['many levels', (own) => `${own}/${'a/'.repeat(200)}`],
    ['NUL in a topic', (own) => `${own}/state\0`],
    ['a control character', (own) => `${own}/sta\u0001te`],
  ];

  it.each(topics)('a message on %s', async (_name, topicOf) => {
    edge = await house.open();
    const { raw } = await Raw.signedIn(house, device, edge.port);
    const topic = topicOf(`proto/${device.tenantId}/device/${device.deviceId}`);
    raw.socket.write(packets.publish(topic, '{}'));
    await raw.closed();
    expect(raw.bytes.length).toBe(0);
    expect(house.received).toEqual([]);
  });

  it.each(topics)('a message on %s, behind one on its own', async (_name, topicOf) => {
    edge = await house.open();
    const { raw } = await Raw.signedIn(house, device, edge.port);
    const own = `proto/${device.tenantId}/device/${device.deviceId}`;
    raw.socket.write(
      Buffer.concat([`${own}/state`, topicOf(own)].map((topic) => packets.publish(topic, '{}', { qos: 0 }))),
    );
    await raw.closed();
    expect(house.counted).toMatchObject({ 'refused MALFORMED': 1, 'closed forbidden': 1 });
    expect(house.received).toEqual([]);
  });

  it('a message in QoS 2, a retained one, and a topic in broken UTF-8', async () => {
    edge = await house.open();
    const topic = `proto/${device.tenantId}/device/${device.deviceId}/state`;
    const broken = Buffer.concat([Buffer.from(topic), Buffer.from([0xc3])]);
    for (const bytes of [
      packets.publish(topic, '{}', { qos: 2 }),
      packets.publish(topic, '{}', { retain: true }),
      packets.publish(topic, '{}', { qos: 3 }),
      packets.publish(broken, '{}'),
      Buffer.from([0x62, 2, 0, 1]), // PUBREL
      Buffer.from([0x20, 2, 0, 0]), // CONNACK
      Buffer.from([0xf0, 0]), // AUTH, of MQTT 5
      Buffer.from([0x82, 0]), // SUBSCRIBE without anything
    ]) {
      house.now += 1;
      const { raw } = await Raw.signedIn(house, device, edge.port);
      raw.socket.write(bytes);
      await raw.closed();
      expect(raw.bytes.length).toBe(0);
    }
    expect(house.received).toEqual([]);
  });

  it('a packet over 64 KiB, before it is read', async () => {
    edge = await house.open();
    const { raw } = await Raw.signedIn(house, device, edge.port);
    raw.socket.write(Buffer.from([0x32, 0xfe, 0xff, 0x03])); // 65,534 bytes and 4 of header
    await raw.closed();
    expect(house.counted['closed oversized']).toBe(1);
  });

  it('but a packet of exactly 64 KiB is only refused for what it says', async () => {
    edge = await house.open();
    const { raw } = await Raw.signedIn(house, device, edge.port);
    const topic = `proto/${device.tenantId}/device/${device.deviceId}/state`;
    const bytes = packets.publish(topic, 'x'.repeat(65_536 - 4 - 2 - topic.length - 2));
    expect(bytes.length).toBe(65_536);
    raw.socket.write(bytes);
    await eventually(() => expect([...raw.bytes]).toEqual([0x40, 2, 0, 1]));
    expect(house.counted['refused MALFORMED']).toBe(1);
    raw.socket.destroy();
  });

  it('what came before it is kept all the same', async () => {
    const client = await open();
    void client.say('state', { state: {} }).catch(() => {});
    void client.mqtt.publishAsync('elsewhere', 'x', { qos: 1 }).catch(() => {});
    await client.closed();
    expect(house.events('state.reported')).toHaveLength(1);
    expect(house.counted['closed forbidden']).toBe(1);
  });
});
