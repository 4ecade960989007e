import { type IncomingMessage, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../support/clock.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { startTestSockets, type TestSockets } from '../../support/state-sockets.ts';

let service: HttpService;
let edge: TestSockets;
beforeAll(async () => {
  service = await startHttpService();
  edge = await startTestSockets(service);
});
afterAll(async () => {
  await edge.close();
  await service.close();
});

describe('an upgrade', () => {
  const answerTo = (path: string, headers: Record<string, string> = {}, at = service.url) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      const { hostname, port } = new URL(at);
      const requested = request({
        hostname,
        port,
        path,
        headers: { connection: 'upgrade', upgrade: 'websocket', ...headers },
      });
      requested.on('response', (response) => resolve(response.resume())).on('error', reject);
      requested.on('upgrade', (response, socket) => resolve(socket.destroy() && response));
      requested.end();
    });
  const handshake = { 'sec-websocket-version': '13', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' };
  const requestId = 'c7b4d6a2-5f0b-4f0c-9e5a-0b1a2c3d4e5f';

  it.each([
    ['without a credential', ''],
    ['with an empty one', '?token='],
    ['with a text that is none', '?token=junk'],
    ['with one that is too long', `?token=${`twk_${'x'.repeat(8_192)}`}`],
  ])('%s counts against the limit of its address', async (_, query) => {
    const limited = await startHttpService({ fixedRates: { anonymous: 2 } });
    const sockets = await startTestSockets(limited);
    try {
      const statuses: (number | undefined)[] = [];
      for (let n = 0; n < 3; n += 1)
        statuses.push((await answerTo(`/ws/state${query}`, handshake, limited.url)).statusCode);
      expect(statuses).toEqual([101, 101, 429]);
    } finally {
      await sockets.close();
      await limited.close();
    }
  });

  it('with a credential that is not valid counts too, and does not keep valid ones out', async () => {
    const limited = await startHttpService({ fixedRates: { anonymous: 3 } });
    const sockets = await startTestSockets(limited);
    try {
      const { token } = await limited.owner();
      const ticket = 'ws_'.padEnd(46, 'x');
      for (const invalid of [token.slice(0, -4), `twk_${'a'.repeat(8)}_${'x'.repeat(49)}`, ticket]) {
        const client = await sockets.connect(invalid);
        expect((await client.closed).code).toBe(4401);
      }
      expect((await answerTo('/ws/state', handshake, limited.url)).statusCode).toBe(429);
      const valid = await sockets.connect(token);
      valid.socket.send('ping');
      await eventually(() => valid.texts.includes('pong'));
    } finally {
      await sockets.close();
      await limited.close();
    }
  });

  it.each([
    ['that is good', '/ws/state', 101, handshake],
    ['that is not a WebSocket handshake', '/ws/state', 400, {}],
    ['of another path', '/ws/nothing?token=x', 404, handshake],
    ['of a path with a slash too many', '/ws/state/', 404, handshake],
    ['to another protocol', '/version', 200, { upgrade: 'h2c' }],
  ])('%s is answered over HTTP with the standard headers', async (_, path, status, sent) => {
    const { statusCode, headers } = await answerTo(path, { ...sent, 'x-request-id': requestId });
    expect(statusCode).toBe(status);
    expect(headers).toMatchObject({
      'x-api-version': '1',
      'x-protocol-version': 'PROTO/3.0',
      'x-request-id': requestId,
      ...(status >= 400 && { 'content-type': 'application/problem+json' }),
    });
  });
});
