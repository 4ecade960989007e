import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { v7 } from 'uuid';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../support/clock.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { slow } from '../../support/slow.ts';
import { startTestSockets, type TestSockets } from '../../support/state-sockets.ts';

let service: HttpService;
let edge: TestSockets;
let owner: { token: string; tenantId: string };
beforeEach(async () => {
  service = await startHttpService();
  owner = await service.owner();
});
afterEach(async () => {
  await edge.close();
  await service.close();
});

const text = 'x'.repeat(20_000);
const publishState = (deviceId: string, n: number) =>
  edge.emit({
    type: 'device.state',
    ...{ tenantId: owner.tenantId, deviceId, state: { n, text }, stateVersion: n, at: n },
    ...{ report: { n, text }, deviceAt: n, sequence: n },
  });

/** Emits in slices, so that sockets are written in between. */
async function flood(ids: readonly string[], rounds: number) {
  for (let n = 1; n <= rounds; n++) {
    for (const id of ids) publishState(id, n);
    if (n % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
}

describe('a client that does not read', () => {
  it('has a bounded queue, receives the latest state of each device, and continues from there', slow, async () => {
    edge = await startTestSockets(service, { highWater: 256 * 1024 });
    const ids = Array.from({ length: 5 }, () => v7());
    const slow = await edge.connect(owner.token);
    const quick = await edge.connect(owner.token);
    await eventually(() => edge.sockets.counts().conflating === 0);
    slow.socket.pause();
    await flood(ids, 300);
    await eventually(() => edge.sockets.counts().conflating === 1);
    await flood(ids, 1_000);
    // One update per device for each conflating client; on a busy machine the fast client may be conflating as well.
    expect(edge.sockets.counts().pendingUpdates).toBeLessThanOrEqual(2 * ids.length);
    // The fast client has read everything: the rest belongs to the slow one.
    await eventually(() => quick.texts.at(-1)?.endsWith('"timestamp":1000}') === true);
    await eventually(() => edge.sockets.counts().pendingUpdates <= ids.length);
    expect(edge.sockets.counts().buffered).toBeLessThan(256 * 1024 + 64 * 1024 + text.length);
    slow.socket.resume();
    await eventually(() => edge.sockets.counts().conflating === 0);
    for (const id of ids) publishState(id, 1_001);
    const isCurrent = ({ texts }: { texts: string[] }) =>
      ids.every((id) => texts.findLast((one) => one.includes(id))?.endsWith('"timestamp":1001}'));
    await eventually(() => isCurrent(slow));
    expect(slow.messages.length).toBeLessThan(5_000);
    await eventually(() => isCurrent(quick));
  });

  it('receives the latest presence of each device and the latest status of each command', async () => {
    edge = await startTestSockets(service, { highWater: 64 * 1024 });
    const client = await edge.connect(owner.token, 'events=state,presence,command');
    await eventually(() => edge.sockets.counts().conflating === 0);
    client.socket.pause();
    const [deviceId, commandId, other] = [v7(), v7(), v7()];
    await flood([deviceId], 1_000);
    await eventually(() => edge.sockets.counts().conflating === 1);
    const { tenantId } = owner;
    for (let n = 0; n < 10; n++) {
      edge.emit({ type: 'device.presence', tenantId, deviceId, online: n % 2 === 1, at: n });
      for (const status of ['dispatched', 'acknowledged', 'succeeded'] as const) {
        const id = n === 0 ? other : commandId;
        edge.emit({
          type: 'command.changed',
          tenantId,
          deviceId,
          commandId: id,
          status,
          verification: 'pending',
          at: n,
        });
      }
    }
    expect(edge.sockets.counts().pendingUpdates).toBe(4);
    client.socket.resume();
    await eventually(() => client.messages.at(-1)?.timestamp === 9);
    const rest = client.messages.slice(-4);
    expect(rest.map(({ type, status, online, timestamp }) => [type, status ?? online, timestamp])).toEqual([
      ['state_update', undefined, 1_000],
      ['command_update', 'succeeded', 0],
      ['presence_update', true, 9],
      ['command_update', 'succeeded', 9],
    ]);
  });

  it('is disconnected when too many different subjects are queued for it', async () => {
    edge = await startTestSockets(service, { highWater: 64 * 1024, maxPendingUpdates: 50 });
    const client = await edge.connect(owner.token);
    await eventually(() => edge.sockets.counts().conflating === 0);
    client.socket.pause();
    await flood([v7()], 1_000);
    await eventually(() => edge.sockets.counts().conflating === 1);
    for (let n = 0; n < 60; n++) publishState(v7(), 1);
    client.socket.resume();
    expect((await client.closed).code).toBe(1013);
    await eventually(() => edge.sockets.counts().connections === 0);
    expect(edge.sockets.counts().pendingUpdates).toBe(0);
  });

  it('is treated as dead when it neither answers nor reads', slow, async () => {
    edge = await startTestSockets(service, { pingIntervalMs: 500 });
    const living = await edge.connect(owner.token);
    const { hostname, port } = new URL(service.url);
    const dead = connect(Number(port), hostname);
    dead.write(
      `GET /ws/state?token=${owner.token} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
        `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n\r\n`,
    );
    const ended = new Promise((resolve) => dead.once('close', resolve));
    dead.on('error', () => {}).pause();
    await eventually(() => edge.sockets.counts().connections === 2);
    await eventually(() => edge.sockets.counts().connections === 1);
    dead.resume();
    await ended;
    expect(living.socket.readyState).toBe(living.socket.OPEN);
  });
});

it('all clients get a close code when the service stops, and new ones are refused', async () => {
  edge = await startTestSockets(service);
  const clients = [await edge.connect(owner.token), await edge.connect(owner.token)];
  const stopped = edge.sockets.close();
  for (const client of clients) expect((await client.closed).code).toBe(1001);
  await stopped;
  expect((await (await edge.connect(owner.token)).closed).code).toBe(1001);
});
