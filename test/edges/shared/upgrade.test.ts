import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { v7 } from 'uuid';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Refusal } from '../../../src/domain/refusals.ts';
import { handleProtocolErrors, serverLimits } from '../../../src/edges/rest/server.ts';
import { makeWebSocketServer, refuseUpgrade, sendRequestTimeout } from '../../../src/edges/shared/upgrade.ts';
import { eventually } from '../../support/clock.ts';

const NOWHERE: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };
let server: Server;
const clients: Socket[] = [];

beforeEach(async () => {
  server = createServer(serverLimits, (request) => sendRequestTimeout(request, v7));
  handleProtocolErrors(server, v7);
  const sockets = makeWebSocketServer({}, v7);
  server.on('upgrade', (request, socket, head) => {
    if (request.url === '/ws') sockets.handleUpgrade(request, socket, head, () => {});
    else refuseUpgrade(request, socket, NOWHERE, { newId: v7 });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(() => {
  for (const client of clients.splice(0)) client.destroy();
  server.close();
});

const UPGRADE = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13';

it.each([
  ['an upgrade of an unknown path', `GET /nothing HTTP/1.1\r\nHost: x\r\n${UPGRADE}\r\n\r\n`, 404],
  ['an incomplete handshake', `GET /ws HTTP/1.1\r\nHost: x\r\n${UPGRADE}\r\n\r\n`, 400],
  ['a missing body', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{', 408],
  ['an invalid request', 'GET nonsense\r\n\r\n', 400],
])(
  'a refused client with %s is answered and disconnected, although it keeps its side open',
  async (_, text, status) => {
    // The client keeps its side half open, like an attacker that wants to exhaust connections.
    const client = connect({ port: (server.address() as AddressInfo).port, allowHalfOpen: true });
    clients.push(client);
    client.on('error', () => {});
    let sent = '';
    client.on('data', (chunk) => {
      sent += chunk;
    });
    client.write(text);
    await eventually(() => sent.endsWith('}'));
    expect(sent).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    await eventually(async () => (await connections()) === 0);
  },
);

it.each([
  ['Sec-WebSocket-Key', 'GET /ws', 'Upgrade: websocket\r\nSec-WebSocket-Version: 13'],
  ['Sec-WebSocket-Version', 'GET /ws', 'Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='],
  [
    'Sec-WebSocket-Protocol',
    'GET /ws',
    'Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ,',
  ],
  ['use GET', 'POST /ws', 'Upgrade: websocket\r\nSec-WebSocket-Version: 13'],
])('an invalid handshake is refused with what is wrong: %s', async (named, requestLine, headers) => {
  const client = connect({ port: (server.address() as AddressInfo).port });
  clients.push(client);
  let sent = '';
  client.on('data', (chunk) => {
    sent += chunk;
  });
  client.write(`${requestLine} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n${headers}\r\n\r\n`);
  await eventually(() => sent.endsWith('}'));
  const { detail } = JSON.parse(sent.slice(sent.indexOf('\r\n\r\n')));
  expect(detail).toContain(named);
  expect(detail).not.toMatch(/Missing or invalid|Invalid/);
});

const connections = (): Promise<number> =>
  new Promise((resolve, reject) => server.getConnections((fault, many) => (fault ? reject(fault) : resolve(many))));
