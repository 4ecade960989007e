import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService, type TestService } from '../support/service.ts';

const APP = 'https://app.example.com';
let at: TestService;
let token: string;

beforeAll(async () => {
  at = await startService({ CORS_ORIGINS: `${APP}, http://localhost:5173` });
  token = (await at.owner('ada')).token;
});
afterAll(() => at?.stop());

type Sent = Record<string, string>;

/** Sends the headers as they are: `fetch` refuses to set `Origin`. */
async function send(method: string, path: string, headers: Sent) {
  const sent = request(`${at.url}${path}`, { method, headers });
  const [response] = await once(sent.end(), 'response');
  response.resume();
  const all = response.headers as Sent;
  const cors = Object.entries(all).filter(([name]) => name.startsWith('access-control-'));
  return { status: response.statusCode as number, headers: all, cors: Object.fromEntries(cors) };
}

const authorized = (headers: Sent = {}) => ({ authorization: `Bearer ${token}`, ...headers });

describe('a page of a configured origin', () => {
  it.each([APP, 'http://localhost:5173'])(
    'of %s reads answers of REST, with the headers of the service',
    async (origin) => {
      const { status, headers, cors } = await send('GET', '/v1/homes', authorized({ origin }));
      expect([status, headers.vary]).toEqual([200, 'Origin']);
      expect(cors).toEqual({
        'access-control-allow-origin': origin,
        'access-control-expose-headers': expect.stringMatching(/ETag.*RateLimit.*Retry-After.*X-Request-ID/),
      });
    },
  );

  it('reads errors too', async () => {
    const { status, cors } = await send('GET', '/v1/homes', { origin: APP });
    expect([status, cors['access-control-allow-origin']]).toEqual([401, APP]);
  });

  it.each(['/v1/homes', '/api/v1/homes', '/graphql', '/v1/auth/api-keys'])(
    'may send a request to %s after a preflight',
    async (path) => {
      const asked = {
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type',
      };
      const { status, cors } = await send('OPTIONS', path, { origin: APP, ...asked });
      expect(status).toBe(204);
      expect(cors).toMatchObject({
        'access-control-allow-origin': APP,
        'access-control-allow-methods': expect.stringContaining('PATCH'),
        'access-control-allow-headers': expect.stringMatching(/Authorization.*Content-Type.*Idempotency-Key/),
        'access-control-max-age': '600',
      });
    },
  );

  it('spends no rate with preflights', async () => {
    const asked = { origin: APP, 'access-control-request-method': 'GET' };
    // More than the 600 requests a minute without a credential.
    for (let n = 0; n < 650; n += 50) {
      await Promise.all(Array.from({ length: 50 }, () => send('OPTIONS', '/v1/homes', asked)));
    }
    expect((await send('GET', '/v1/homes', { origin: APP })).status).toBe(401);
  });

  it('never gets credentials', async () => {
    for (const [method, path] of [
      ['GET', '/v1/homes'],
      ['OPTIONS', '/graphql'],
      ['GET', '/v1/auth/csrf'],
    ] as const) {
      const { cors } = await send(method, path, authorized({ origin: APP, 'access-control-request-method': 'POST' }));
      expect(cors).not.toHaveProperty('access-control-allow-credentials');
    }
  });

  it.each(['/console', '/mcp', '/sse', '/docs', '/auth/cli'])('cannot read %s', async (path) => {
    expect((await send('HEAD', path, { origin: APP })).cors).toEqual({});
  });
});

describe('another origin', () => {
  it.each([
    ...['null', '*', '', 'https://evil.example', 'http://app.example.com', 'https://app.example.com:8443'],
    ...['https://app.example.com.evil.example', 'https://evilapp.example.com', 'https://app.example.com/'],
    ...['https://APP.example.com', 'https://app.example.com, https://evil.example', 'https://sub.app.example.com'],
  ])('%j gets no header, before and after a preflight', async (origin) => {
    for (const method of ['GET', 'OPTIONS']) {
      const { headers, cors } = await send(
        method,
        '/v1/homes',
        authorized({ origin, 'access-control-request-method': 'GET' }),
      );
      expect([cors, headers.vary]).toEqual([{}, 'Origin']);
    }
  });
});

it('a request without an origin is answered with Vary, so that a cache keeps it apart', async () => {
  const { headers, cors } = await send('GET', '/status', {});
  expect([cors, headers.vary]).toEqual([{}, 'Origin']);
});

describe('a request with two Host headers', () => {
  const raw = async (head: string): Promise<string> => {
    const socket = connect(Number(new URL(at.url).port), '127.0.0.1');
    socket.end(head);
    let text = '';
    for await (const chunk of socket) text += chunk;
    return text;
  };

  it.each([
    ['GET /health', ''],
    ['GET /mcp', ''],
    [
      'GET /ws/state?token=x',
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n',
    ],
  ])('is 400: %s', async (line, more) => {
    const answer = await raw(`${line} HTTP/1.1\r\nHost: a\r\nhost: b\r\n${more}Connection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toContain('"code":"VALIDATION_FAILED"');
  });
});

describe('a browser or a plain client', () => {
  it('is led from / to the console, and a program is not', async () => {
    const page = await send('GET', '/', { accept: 'text/html,application/xhtml+xml' });
    expect([page.status, page.headers.location]).toEqual([302, './console']);
    expect((await send('GET', '/', { accept: 'application/json' })).status).toBe(404);
    expect((await send('GET', '/', {})).status).toBe(404);
  });

  it.each(['/ws/state', '/ws/actors', '/mqtt'])('that opens the WebSocket %s by plain HTTP gets 426', async (path) => {
    const { status, headers } = await send('GET', path, {});
    expect([status, headers.upgrade, headers.connection?.toLowerCase()]).toEqual([
      426,
      'websocket',
      expect.stringContaining('upgrade'),
    ]);
  });
});
