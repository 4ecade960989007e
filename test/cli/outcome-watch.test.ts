import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { makeApi } from '../../src/cli/api.ts';
import { type OutcomeWatch, waitForOutcome } from '../../src/cli/outcome-watch.ts';
import { eventLoopTurns } from '../support/clock.ts';

const ID = 'c1';

describe('waitForOutcome', () => {
  let server: Server;
  let sockets: WebSocketServer;
  /** Answers requests for a ticket. */
  let ticketStatus = 201;
  beforeEach(async () => {
    ticketStatus = 201;
    server = createServer((_request, response) => {
      response.writeHead(ticketStatus, { 'content-type': 'application/json' }).end('{"ticket":"t"}');
    });
    sockets = new WebSocketServer({ server });
    sockets.on('connection', (socket) => socket.on('message', () => socket.send('pong')));
    await once(server.listen(0, '127.0.0.1'), 'listening');
  });
  afterEach(() => {
    vi.useRealTimers();
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    server.close();
  });

  /** Watches a record, on fake timers from the start. */
  async function follow() {
    const record = { over: false };
    const begun = Promise.withResolvers<void>();
    const read = vi.fn(async () => ({ ...record }));
    const followed: OutcomeWatch<{ over: boolean }> = {
      updates: { events: ['command'] },
      async start() {
        vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
        begun.resolve();
        return { id: ID };
      },
      read,
      hasEnded: ({ over }) => over,
      isAbout: (update) => update.command_id === ID,
      isFinalUpdate: (update) => update.status === 'succeeded',
    };
    const { port } = server.address() as AddressInfo;
    const ended = waitForOutcome(makeApi(`http://127.0.0.1:${port}`, 'token'), followed);
    await Promise.race([begun.promise, ended]);
    await eventLoopTurns();
    return { record, read, ended };
  }

  it('with a stream reads the record once, at the end', async () => {
    const { record, read, ended } = await follow();
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(read).toHaveBeenCalledTimes(0);
    vi.useRealTimers();
    record.over = true;
    const [socket] = sockets.clients as Set<WebSocket>;
    socket?.send(JSON.stringify({ type: 'command_update', command_id: ID, status: 'succeeded' }));
    expect(await ended).toEqual({ over: true });
    expect(read).toHaveBeenCalledTimes(1);
  });

  it('without a stream polls at once, then after 2, 4, 8 and every 15 seconds', async () => {
    ticketStatus = 403;
    const { record, read, ended } = await follow();
    for (const [reads, seconds] of [2, 4, 8, 15, 15].entries()) {
      expect(read).toHaveBeenCalledTimes(reads + 1);
      await vi.advanceTimersByTimeAsync(seconds * 1_000 - 1);
      expect(read).toHaveBeenCalledTimes(reads + 1);
      await vi.advanceTimersByTimeAsync(1);
    }
    record.over = true;
    await vi.advanceTimersByTimeAsync(15_000);
    expect(await ended).toEqual({ over: true });
    expect(read).toHaveBeenCalledTimes(7);
  });
});
