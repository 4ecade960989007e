import { randomUUID } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import { EventFailed, Quarantined } from '../../../src/actors/contract.ts';
import type { JsonSpan } from '../../../src/domain/json/span.ts';
import { SESSION_LIFE_MS } from '../../../src/protocol/constants.ts';
import { DataRefused, StoreUnavailable } from '../../../src/store/contract.ts';
import { spanText } from '../../support/json-span.ts';
import { Device, eventually, packets, Raw } from './client.ts';
import { device, edge, latch, open, openEdge, service, turnsUntil, withEdge } from './edge-fixture.ts';

withEdge();

describe('a message', () => {
  it('becomes one event of its device, with sender, time and message id', async () => {
    const client = await open({ watches: () => [{ commandId: 'c', expected: {}, seen: false }] });
    const messageId = randomUUID();
    await client.send('hello', { protocol: 'PROTO/3.1', firmware: '1.2.3' });
    await client.send('heartbeat', { battery: 80 });
    await client.send('state', { state: { on: true } }, { messageId });
    await client.send('state', { state: {}, full: true });
    const by = { kind: 'device', id: device.deviceId, via: 'mqtt' };
    const at = service.now;
    expect(service.received.map(({ event }) => event)).toMatchObject([
      { type: 'hello.received', firmware: '1.2.3', by, at },
      { type: 'heartbeat.received', header: { sequenceNumber: 2 }, by, at },
      {
        type: 'state.reported',
        state: { on: true },
        full: false,
        header: { sequenceNumber: 3, messageId },
        watches: [{ commandId: 'c' }],
      },
      { type: 'state.reported', state: {}, full: true },
    ]);
    expect(service.seen).toHaveLength(4);
    expect(service.seen[1]).toEqual({ deviceId: device.deviceId, battery: 80 });
  });

  it('with a state passes its text on if it contains only the state', async () => {
    const client = await open();
    await client.send('state', { state: { on: true, name: 'Küche' } });
    await client.send('state', { state: { on: false }, full: true });
    await client.send('state', { state: { on: true }, and: 'more' });
    await client.send('state', { state: { name: '"' } });
    const written = service
      .events('state.reported')
      .map((event) => (event as { written?: JsonSpan }).written)
      .map((span) => span && spanText(span));
    expect(written).toEqual(['{"name":"Küche","on":true}', '{"on":false}', undefined, undefined]);
  });

  it('is acknowledged when its commit is durable, and not before', async () => {
    const client = await open();
    const { open: commit, wait } = latch();
    service.commit = wait;
    let acknowledged = false;
    const sent = client.send('state', { state: { a: 1 } }).then(() => {
      acknowledged = true;
    });
    await eventually(() => expect(service.received).toHaveLength(1));
    await client.ping();
    expect(acknowledged).toBe(false);
    commit();
    await sent;
  });

  it('in QoS 0 has the same effect and no acknowledgement', async () => {
    await openEdge();
    const { raw, clientId } = await Raw.signedIn(service, device, edge.port);
    const client = await signer(clientId);
    raw.socket.write(packets.publish(client.topic('state'), client.compose('state', { state: {} }), { qos: 0 }));
    await eventually(() => expect(service.events('state.reported')).toHaveLength(1));
    raw.socket.write(packets.ping);
    await eventually(() => expect([...raw.bytes]).toEqual([0xd0, 0]));
    raw.socket.destroy();
  });

  it('in QoS 0 is applied even if its sender disconnects after it', async () => {
    await openEdge();
    const { raw, clientId } = await Raw.signedIn(service, device, edge.port);
    const client = await signer(clientId);
    const sent = Array.from({ length: 30 }, (_, n) =>
      packets.publish(client.topic('state'), client.compose('state', { state: { n } }), { qos: 0 }),
    );
    raw.socket.end(Buffer.concat([...sent, packets.disconnect]));
    await eventually(() => expect(service.events('state.reported')).toHaveLength(30));
    await eventually(() => expect(service.live.size).toBe(0));
  });

  it('is refused after the end of its session, before the periodic check closes it', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    try {
      const client = await open();
      service.now += SESSION_LIFE_MS - 1;
      await client.send('state', { state: { n: 1 } });
      service.now += 1;
      void client.send('state', { state: { n: 2 } }).catch(() => {});
      await eventually(() => expect(service.counted['closed expired']).toBe(1));
      expect(service.events('state.reported')).toHaveLength(1);
    } finally {
      await edge.close();
      vi.useRealTimers();
    }
  });

  it('sent twice is acknowledged twice and forwarded once', async () => {
    const client = await open();
    const messageId = randomUUID();
    await client.send('state', { state: { a: 1 } }, { sequence: 1, messageId });
    await client.send('state', { state: { a: 1 } }, { sequence: 1, messageId });
    expect(service.counted).not.toHaveProperty('refused SEQUENCE_REUSED');
  });

  /** Composes messages for a session on a raw socket. */
  async function signer(clientId: string) {
    const other = await Device.connect(service, service.addDevice(), edge.port);
    await other.mqtt.endAsync();
    return other.as(device, clientId);
  }
});

describe('when a message cannot be committed', () => {
  it.each([new StoreUnavailable('away'), new EventFailed('thrown'), new Quarantined('by an operator')])(
    'its session ends without acknowledging it or later ones: %s',
    async (fault) => {
      const client = await open({ limits: { closeJitterMs: 50 } });
      service.commit = async ({ event }) => {
        if ((event as unknown as { header: { sequenceNumber: number } }).header.sequenceNumber === 2) throw fault;
      };
      const acknowledged: number[] = [];
      for (const n of [1, 2, 3]) {
        void client.send('state', { state: { n } }).then(
          () => acknowledged.push(n),
          () => {},
        );
      }
      await client.closed();
      expect(acknowledged).toEqual([1]);
      expect(service.counted['closed failed']).toBe(1);
    },
  );

  it('and neither is one whose command was not updated', async () => {
    const client = await open({ limits: { closeJitterMs: 50 } });
    const id = randomUUID();
    service.commands.set(id, { deviceId: device.deviceId });
    service.onMessageCommit = async () => {
      throw new StoreUnavailable('away');
    };
    void client.send('cmd_ack', { command_id: id, status: 'accepted' }).catch(() => {});
    await client.closed();
    expect(service.counted['closed failed']).toBe(1);
  });

  it('sessions end spread over time, without reading until then', async () => {
    await openEdge({ limits: { closeJitterMs: 2_000 } });
    const clients = await Promise.all(
      Array.from({ length: 20 }, () => Device.connect(service, service.addDevice(), edge.port)),
    );
    service.commit = async () => {
      throw new StoreUnavailable('away');
    };
    const sendFromAll = () => {
      for (const client of clients) void client.send('state', { state: {} }).catch(() => {});
    };
    let drawn = 0;
    vi.spyOn(Math, 'random').mockImplementation(() => (drawn++ % 20) / 20);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      sendFromAll();
      await turnsUntil(() => drawn >= 20);
      expect([service.received.length, drawn]).toEqual([20, 20]);
      expect(service.counted['closed failed']).toBeUndefined();
      sendFromAll();
      vi.advanceTimersByTime(950);
      await turnsUntil(() => clients.filter(({ mqtt }) => !mqtt.connected).length === 10);
      expect(service.counted['closed failed']).toBe(10);
      vi.advanceTimersByTime(950);
      await turnsUntil(() => clients.every(({ mqtt }) => !mqtt.connected));
      expect(service.counted['closed failed']).toBe(20);
      expect(service.received).toHaveLength(20);
    } finally {
      vi.useRealTimers();
    }
  });

  it('because of its data, it alone is refused with an error message', async () => {
    const client = await open();
    await client.listen();
    service.commit = async () => {
      throw new EventFailed('no', { cause: new DataRefused('22003', 'no') });
    };
    await client.send('state', { state: {} });
    await eventually(() =>
      expect(client.received).toMatchObject([{ type: 'error', payload: { code: 'PAYLOAD_INVALID' } }]),
    );
  });

  it('because the device is deleted or revoked, its session ends at once', async () => {
    const client = await open();
    service.row(device.deviceId).revoked = true;
    void client.send('state', { state: {} }).catch(() => {});
    await client.closed();
    const other = service.addDevice();
    const second = await Device.connect(service, other, edge.port);
    service.rows.delete(other.deviceId);
    void second.send('state', { state: {} }).catch(() => {});
    await second.closed();
    expect(service.counted['closed ended']).toBe(2);
  });
});
