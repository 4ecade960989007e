import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterEach, expect, it, vi } from 'vitest';
import { makeStandbyUpgrade } from '../../../src/edges/rest/standby.ts';
import { newId } from '../../support/actor-commits.ts';
import { eventually } from '../../support/clock.ts';

type Upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

const HANDSHAKE = 'GET /ws/state HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

/** A client whose upgrade waits until the process is active. */
async function waitingClient() {
  const active = Promise.withResolvers<Upgrade | null>();
  const waiting = Promise.withResolvers<Duplex>();
  const upgrade = makeStandbyUpgrade({ newId, whenActive: () => active.promise });
  const server = createServer();
  server.on('upgrade', (...request) => {
    upgrade(...request);
    waiting.resolve(request[1]);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.on('error', () => {});
  closing.push(
    () => client.destroy(),
    () => server.close(),
  );
  client.write(HANDSHAKE);
  return { client, socket: await waiting.promise, becomeActive: active.resolve };
}

it('an upgrade is served once the process is active', async () => {
  const { client, socket, becomeActive } = await waitingClient();
  becomeActive((request, accepted, head) => void accepted.end(`${request.url} ${head.length}`));
  const received: Buffer[] = [];
  client.on('data', (chunk) => received.push(chunk));
  await eventually(() => socket.destroyed);
  expect(Buffer.concat(received).toString()).toBe('/ws/state 0');
});

it('an upgrade is refused if the process is not active soon', async () => {
  const { client, becomeActive } = await waitingClient();
  becomeActive(null);
  const received: Buffer[] = [];
  client.on('data', (chunk) => received.push(chunk));
  await eventually(() => expect(Buffer.concat(received).toString()).toMatch(/^HTTP\/1\.1 503 .*"code":"STANDBY"/s));
});

it('a client that resets its connection while its upgrade waits does not end the process', async () => {
  const uncaught = vi.fn();
  process.once('uncaughtException', uncaught);
  closing.push(() => process.off('uncaughtException', uncaught));
  const { client, socket, becomeActive } = await waitingClient();
  client.resetAndDestroy();
  await eventually(() => socket.destroyed);
  const upgrade = vi.fn();
  becomeActive(upgrade);
  await new Promise((resolve) => setImmediate(resolve));
  expect([uncaught.mock.calls, upgrade.mock.calls]).toEqual([[], []]);
});
