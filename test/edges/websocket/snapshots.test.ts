import { v7 } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { VolatileOutput } from '../../../src/machines/outputs.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { Random } from '../../simulation/world/random.ts';
import { eventually } from '../../support/clock.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { seed } from '../../support/properties.ts';
import { slow } from '../../support/slow.ts';
import { type SocketClient, startTestSockets, type TestSockets } from '../../support/state-sockets.ts';

let service: HttpService;
let edge: TestSockets;
let owner: { token: string; tenantId: string };
beforeAll(async () => {
  service = await startHttpService();
  owner = await service.owner();
});
afterAll(() => service.close());

/** The rows of the store: each number is both state and version. */
let stored: Map<string, number>;
beforeEach(async () => {
  stored = new Map();
  // Long enough for a slow machine.
  edge = await startTestSockets(service, { snapshotWindowMs: 3_000 });
  edge.store.states = async (_, ids) => rows(ids);
});
afterEach(() => edge.close());

const rows = (ids?: readonly string[]) =>
  [...stored]
    .filter(([id]) => ids === undefined || ids.includes(id))
    .map(([deviceId, n]) => ({ deviceId, state: { n }, stateVersion: n, reportedAt: n === 0 ? null : n }));

const publishState = (deviceId: string, n: number) =>
  edge.emit({
    type: 'device.state',
    ...{ tenantId: owner.tenantId, deviceId, state: { n }, stateVersion: n, at: n },
    ...{ report: { n }, deviceAt: n, sequence: n },
  } as VolatileOutput);

/** Holds the next read until it is released; it returns the rows as of its start. */
function holdReading() {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  edge.store.states = async (_, ids) => {
    const read = rows(ids);
    await held;
    return read;
  };
  return { release, begun: (reads = 1) => eventually(() => edge.store.reads === reads) };
}

/** Device and number of each update received before the pong to a new ping. */
async function updatesOf(client: SocketClient): Promise<[unknown, unknown][]> {
  client.socket.send('ping');
  const pongs = client.texts.filter((text) => text === 'pong').length;
  await eventually(() => client.texts.filter((text) => text === 'pong').length > pongs);
  return client.messages.map(({ device_id, state }) => [device_id, (state as { n: number }).n]);
}

const snapshot = (query = '') => edge.connect(owner.token, `snapshot=1&${query}`);

describe('a snapshot', () => {
  it('starts with the current state of every device that has reported one', async () => {
    const [one, two, silent] = [v7(), v7(), v7()];
    stored = new Map([
      [one, 3],
      [silent, 0],
      [two, 9],
    ]);
    const client = await snapshot();
    await client.waitForMessages(2);
    publishState(one, 4);
    expect(await client.waitForMessages(3)).toEqual([
      { type: 'state_update', device_id: one, state: { n: 3 }, timestamp: 3 },
      { type: 'state_update', device_id: two, state: { n: 9 }, timestamp: 9 },
      { type: 'state_update', device_id: one, state: { n: 4 }, timestamp: 4 },
    ]);
  });

  it('contains only the filtered devices', async () => {
    const [one, two] = [v7(), v7()];
    stored = new Map([
      [one, 1],
      [two, 2],
    ]);
    const client = await snapshot(`device_id=${two}&device_id=${v7()}`);
    expect(await updatesOf(client)).toEqual([[two, 2]]);
  });

  it('is not read for a client that did not request states', async () => {
    stored.set(v7(), 1);
    expect(await updatesOf(await snapshot('events=presence'))).toEqual([]);
    expect(await updatesOf(await edge.connect(owner.token))).toEqual([]);
    expect(edge.store.reads).toBe(0);
  });

  it('is superseded by a newer update that arrived during the read, sent once', async () => {
    const device = v7();
    stored.set(device, 5);
    const { release, begun } = holdReading();
    const client = await snapshot();
    await begun();
    publishState(device, 6);
    publishState(device, 7);
    release();
    expect(await updatesOf(client)).toEqual([[device, 7]]);
  });

  it('suppresses an update that it already contains, for any delay of that update', async () => {
    const device = v7();
    stored.set(device, 5);
    const { release, begun } = holdReading();
    const client = await snapshot();
    await begun();
    publishState(device, 4);
    release();
    await client.waitForMessages(1);
    publishState(device, 5);
    publishState(device, 6);
    await client.waitForMessages(2);
    expect(await updatesOf(client)).toEqual([
      [device, 5],
      [device, 6],
    ]);
  });

  it('precedes other events that happened during the read', async () => {
    const device = v7();
    stored.set(device, 5);
    const { release, begun } = holdReading();
    const client = await snapshot('events=state,presence');
    await begun();
    const presence = { tenantId: owner.tenantId, deviceId: device, online: true, at: 1 };
    edge.emit({ type: 'device.presence', ...presence });
    release();
    expect((await client.waitForMessages(2)).map(({ type }) => type)).toEqual(['state_update', 'presence_update']);
  });

  it('is read once for all clients that connect during another read', async () => {
    const device = v7();
    stored.set(device, 1);
    const { release, begun } = holdReading();
    const first = await snapshot();
    await begun();
    const others = await Promise.all([snapshot(), snapshot(), snapshot()]);
    // They are admitted some time after their sockets are open.
    await eventually(() => edge.sockets.counts().conflating === 4);
    stored.set(device, 2);
    release();
    expect(await updatesOf(first)).toEqual([[device, 1]]);
    for (const other of others) expect(await updatesOf(other)).toEqual([[device, 2]]);
    expect(edge.store.reads).toBe(2);
  });

  it('that cannot be read closes with 1013', async () => {
    edge.store.states = async () => {
      throw new StoreUnavailable('away');
    };
    const { code, reason } = await (await snapshot()).closed;
    expect(code).toBe(1013);
    expect(reason).toMatch(/^STORE_UNAVAILABLE: /);
  });

  it('leaves no gap and repeats nothing, for any moment of connecting', slow, async () => {
    const ids = Array.from({ length: 5 }, () => v7());
    for (const id of ids) stored.set(id, 1);
    const random = new Random(`${seed}`);
    const soon = (most: number) => new Promise((resolve) => setTimeout(resolve, random.float(most)));
    edge.store.states = async (_, wanted) => {
      await soon(3);
      const read = rows(wanted);
      await soon(6);
      return read;
    };
    let running = true;
    // Stored first and published a little later, in order, as the runtime does.
    const devices = ids.map(async (id) => {
      for (let n = 2; running || n < 50; n++) {
        stored.set(id, n);
        await soon(4);
        publishState(id, n);
      }
    });
    const clients: SocketClient[] = [];
    for (let n = 0; n < 60; n++) {
      clients.push(await snapshot());
      await soon(5);
    }
    running = false;
    await Promise.all(devices);
    for (const client of clients) {
      for (const id of ids) {
        const last = stored.get(id) as number;
        const numbers = await eventually(() => {
          const notified = client.messages
            .filter(({ device_id }) => device_id === id)
            .map(({ timestamp }) => Number(timestamp));
          return notified.at(-1) === last ? notified : null;
        });
        const from = numbers[0] as number;
        expect(numbers).toEqual(Array.from({ length: last - from + 1 }, (_, n) => from + n));
      }
    }
    await eventually(() => edge.sockets.counts().conflating === 0);
  });
});
