import { describe, expect, it, vi } from 'vitest';
import { Overloaded } from '../../../src/actors/contract.ts';
import { eventLoopTurns } from '../../support/clock.ts';
import { Device, eventually } from './client.ts';
import { device, edge, latch, open, service, turnsUntil, withEdge } from './edge-fixture.ts';

withEdge();

const slow = (perSecond: number, burst: number) => ({
  host: '127.0.0.1',
  port: 0,
  tls: null,
  maxConnections: 10,
  deviceRate: { perSecond, burst },
});

describe('many messages of one connection', () => {
  it('are in flight together and reach the actor in order', async () => {
    const client = await open();
    const { open: commit, wait } = latch();
    service.commit = wait;
    const sent = Array.from({ length: 20 }, (_, n) => client.send('state', { state: { n } }));
    await eventually(() => expect(service.received).toHaveLength(20));
    expect(service.events('state.reported').map((event) => (event as unknown as { state: object }).state)).toEqual(
      Array.from({ length: 20 }, (_, n) => ({ n })),
    );
    commit();
    await Promise.all(sent);
  });

  it('are acknowledged in their order, for any order of commits', async () => {
    const client = await open();
    const first = latch();
    service.commit = async ({ event }) => {
      if ((event as unknown as { header: { sequenceNumber: number } }).header.sequenceNumber === 1) await first.wait();
    };
    const order: number[] = [];
    const sent = [1, 2, 3].map((n) => client.send('state', { state: { n } }).then(() => order.push(n)));
    await client.mqtt.publishAsync(client.topic('state'), 'not even JSON', { qos: 0 });
    await eventually(() => expect(service.received).toHaveLength(3));
    await client.ping();
    expect(order).toEqual([]);
    first.open();
    await Promise.all(sent);
    expect(order).toEqual([1, 2, 3]);
  });

  it('are not read beyond 32 in flight, and none is lost', async () => {
    const client = await open();
    const { open: commit, wait } = latch();
    service.commit = wait;
    const sent = Array.from({ length: 100 }, (_, n) => client.send('state', { state: { n } }));
    await eventually(() => expect(service.received).toHaveLength(32));
    await eventLoopTurns();
    expect(service.received).toHaveLength(32);
    commit();
    await Promise.all(sent);
    expect(service.received).toHaveLength(100);
  });

  it('above the rate of the device wait in its socket', async () => {
    const client = await open({ settings: slow(100, 10) });
    const started = performance.now();
    await Promise.all(Array.from({ length: 30 }, (_, n) => client.send('state', { state: { n } })));
    expect(performance.now() - started).toBeGreaterThan(150);
    expect(service.received).toHaveLength(30);
  });

  it('above the rate do not delay other devices', async () => {
    const client = await open({ settings: slow(0.001, 5) });
    const sent = Array.from({ length: 20 }, (_, n) => client.send('state', { state: { n } }));
    for (const late of sent) late.catch(() => {});
    const neighbour = await Device.connect(service, service.addDevice(device.tenantId), edge.port);
    for (let n = 0; n < 5; n++) await neighbour.send('state', { state: { n } });
    expect(service.received.filter(({ ref }) => ref.id === neighbour.device.deviceId)).toHaveLength(5);
    expect(service.received.filter(({ ref }) => ref.id === device.deviceId).length).toBeLessThanOrEqual(5);
  });

  it('get no new burst by signing in again', async () => {
    const first = await open({ settings: slow(0.001, 5) });
    for (let n = 0; n < 5; n++) await first.send('state', { state: { n } });
    service.now += 1;
    const second = await Device.connect(service, device, edge.port);
    void second.send('state', { state: {} }).catch(() => {});
    const neighbour = await Device.connect(service, service.addDevice(device.tenantId), edge.port);
    await neighbour.send('state', { state: {} });
    expect(service.received.filter(({ ref }) => ref.id === device.deviceId)).toHaveLength(5);
  });

  it('wait while the runtime is overloaded, and then continue in order', async () => {
    const client = await open();
    let full = true;
    let refused = 0;
    service.commit = async (received) => {
      if (!full) return;
      refused += 1;
      service.received.splice(service.received.indexOf(received), 1);
      throw new Overloaded('full');
    };
    const sent = Array.from({ length: 60 }, (_, n) => client.send('state', { state: { n } }));
    await eventually(() => expect(refused).toBeGreaterThan(2));
    await eventLoopTurns();
    expect(service.received).toEqual([]);
    full = false;
    await Promise.all(sent);
    expect(
      service.events('state.reported').map((event) => (event as unknown as { state: { n: number } }).state.n),
    ).toEqual(Array.from({ length: 60 }, (_, n) => n));
  });

  it.each(['before', 'after'])(
    'are not retried after their connection closed, if the runtime refused them %s that',
    async (when) => {
      const client = await open();
      const { open: refuse, wait } = latch();
      let refused = 0;
      service.commit = async () => {
        if (when === 'after') await wait();
        refused += 1;
        throw new Overloaded('full');
      };
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
      try {
        for (let n = 0; n < 3; n++) void client.send('state', { state: { n } }).catch(() => {});
        await turnsUntil(() => service.received.length === 3 && (when === 'after' || refused === 3));
        client.mqtt.stream.destroy();
        await turnsUntil(() => service.closed.includes(client.clientId));
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
