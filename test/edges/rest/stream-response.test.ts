import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { done } from '../../../src/domain/refusals.ts';
import { sendStream } from '../../../src/edges/rest/stream-response.ts';
import { httpExchangeOf } from '../../../src/edges/shared/http-exchange.ts';
import { newId } from '../../support/actor-commits.ts';
import { eventLoopTurns } from '../../support/clock.ts';

const IDLE_MS = 60_000;
const MIB = 'x'.repeat(1024 * 1024);

/** Of the last request: whether its body is being read, and the outcome of sending it. */
let isOpen = false;
let chunk = MIB;
let outcome: Promise<void>;
const server = createServer((request, response) => {
  async function* endless() {
    isOpen = true;
    try {
      for (;;) yield chunk;
    } finally {
      isOpen = false;
    }
  }
  const body = { type: 'text/csv', name: 'all.csv', open: () => done(endless()) };
  outcome = sendStream(httpExchangeOf(request, response, { newId }), body);
});

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterEach(() => {
  chunk = MIB;
  vi.useRealTimers();
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

async function pausedClient(
  prepare: (response: ServerResponse) => void = () => {},
): Promise<{ socket: Socket; response: ServerResponse }> {
  server.prependOnceListener('request', (_, response) => prepare(response));
  const arrived = once(server, 'request') as Promise<[IncomingMessage, ServerResponse]>;
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
  socket.pause().write('GET /export HTTP/1.1\r\nHost: x\r\n\r\n');
  const [, response] = await arrived;
  return { socket, response };
}

/** `eventually` waits by `setTimeout`, which does not advance by itself here. */
async function until(check: () => unknown): Promise<void> {
  while (!check()) await eventLoopTurns(1);
}

it('ends the body of a client that takes nothing for a minute, and of none that takes something before', async () => {
  // The sockets are real: only the time limit is advanced.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const { socket, response } = await pausedClient();
  await until(() => response.writableNeedDrain);
  vi.advanceTimersByTime(IDLE_MS - 1);
  expect([response.destroyed, isOpen]).toEqual([false, true]);
  // The operating system holds some megabytes, of which the client may take many before the server can write again.
  const isWritten = once(response, 'drain');
  socket.on('data', () => {}).resume();
  await isWritten;
  socket.pause();
  await until(() => response.writableNeedDrain);
  vi.advanceTimersByTime(IDLE_MS - 1);
  expect([response.destroyed, isOpen]).toEqual([false, true]);
  // The operating system may still take some more, which is a minute more.
  await until(() => {
    vi.advanceTimersByTime(IDLE_MS);
    return response.destroyed;
  });
  await outcome;
  expect([response.destroyed, isOpen]).toEqual([true, false]);
  socket.destroy();
});

it('ends the body of a client that takes less than 64 KiB a second for minutes, and of none that takes as much', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  chunk = 'x'.repeat(64 * 1024);
  /** Number of chunks that a client takes, one each `takesMs`. */
  const chunksTaken = async (takesMs: number, most: number): Promise<number> => {
    const { socket, response } = await pausedClient((one) => {
      // Whatever the operating system holds: the client has taken a chunk when the response is drained.
      one.write = () => false;
    });
    let count = 0;
    for (; count < most; count += 1) {
      await eventLoopTurns();
      vi.advanceTimersByTime(takesMs);
      if (response.destroyed) break;
      response.emit('drain');
    }
    response.destroy();
    await outcome;
    expect(isOpen).toBe(false);
    socket.destroy();
    return count;
  };
  expect(await chunksTaken(1_000, 200)).toBe(200);
  expect(await chunksTaken(11_000, 200)).toBe(5);
  // Three bytes each.
  chunk = '度'.repeat(64 * 1024);
  expect(await chunksTaken(3_000, 200)).toBe(200);
});
