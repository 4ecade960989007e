import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { v7 } from 'uuid';
import { afterEach, expect, it } from 'vitest';
import { EventStream } from '../../../src/edges/mcp/event-stream.ts';
import { httpExchangeOf } from '../../../src/edges/shared/http-exchange.ts';
import { eventLoopTurns } from '../../support/clock.ts';

let server: Server;
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

it('a client that does not read is disconnected when 4 MiB are buffered for it', async () => {
  let stream: EventStream | undefined;
  server = createServer((requested, response) => {
    stream = new EventStream(httpExchangeOf(requested, response, { newId: v7 }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sent = request({ port: (server.address() as AddressInfo).port });
  sent.end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  response.pause();
  response.on('error', () => {});
  const message = {
    jsonrpc: '2.0' as const,
    method: 'notifications/message',
    params: { data: 'x'.repeat(256 * 1024) },
  };
  // The buffers of the sockets hold a few megabytes more.
  for (let n = 0; n < 256 && stream?.isOpen; n++) {
    stream.sendMessage(message);
    await eventLoopTurns(1);
  }
  expect(stream?.isOpen).toBe(false);
});
