import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventLoopTurns, eventually } from '../../support/clock.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
let service: HttpService<MemoryStore>;
let token: string;
beforeAll(async () => {
  service = await startHttpService();
  ({ token } = await service.owner());
});
afterAll(() => service.close());

const post = (body: unknown, headers: Record<string, string> = {}) =>
  service.call('POST', '/v1/homes', { token, body, headers });

describe('every response', () => {
  it.each([
    ['a good one', 'GET', '/v1/homes'],
    ['a missing route', 'GET', '/v1/nothing'],
    ['a missing root', 'GET', '/homes'],
    ['a wrong method', 'PUT', '/v1/homes'],
    ['OPTIONS', 'OPTIONS', '/v1/homes'],
    ['health', 'GET', '/health'],
  ])('%s has the versions and a request id', async (_, method, path) => {
    const { headers } = await service.call(method, path, { token });
    expect(headers.get('x-api-version')).toBe('1');
    expect(headers.get('x-protocol-version')).toBe('PROTO/3.0');
    expect(headers.get('x-request-id')).toMatch(UUID);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('x-powered-by')).toBeNull();
    expect(headers.get('etag')).toBeNull();
  });

  it('echoes a request id that is a UUID, and replaces other values', async () => {
    const mine = 'C7B4D6A2-5F0B-4F0C-9E5A-0B1A2C3D4E5F';
    const echoed = await service.call('GET', '/version', { headers: { 'x-request-id': mine } });
    expect(echoed.headers.get('x-request-id')).toBe(mine);
    for (const bad of ['1', 'c7b4d6a2-5f0b-4f0c-9e5a', `${mine}0`, 'x'.repeat(5000)]) {
      const { headers } = await service.call('GET', '/version', { headers: { 'x-request-id': bad } });
      expect(headers.get('x-request-id')).toMatch(UUID);
    }
  });

  it('is a complete problem document when it is a refusal', async () => {
    const { status, headers, body } = await service.call('GET', '/api/v1/nothing?token=secret', {
      headers: { 'x-request-id': 'c7b4d6a2-5f0b-4f0c-9e5a-0b1a2c3d4e5f' },
    });
    expect(status).toBe(404);
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(body).toEqual({
      type: 'urn:twinkeep:problem:NOT_FOUND',
      title: 'Not found',
      status: 404,
      detail: 'There is nothing at this path.',
      instance: '/api/v1/nothing',
      code: 'NOT_FOUND',
      request_id: 'c7b4d6a2-5f0b-4f0c-9e5a-0b1a2c3d4e5f',
    });
  });
});

describe('paths and methods', () => {
  it('are the same under both roots', async () => {
    const made = await service.call('POST', '/api/v1/homes', { token, body: { home_name: 'Both' } });
    expect(made.status).toBe(201);
    const { body } = await service.call('GET', '/v1/homes', { token });
    expect(body).toEqual((await service.call('GET', '/api/v1/homes', { token })).body);
    expect(body.homes.map(({ id }: { id: string }) => id)).toContain(made.body.id);
  });

  it('of health, status, version and changelog are also served without a prefix, and no others', async () => {
    for (const path of ['/health', '/health/live', '/health/ready', '/status', '/version', '/changelog']) {
      for (const root of ['', '/v1', '/api/v1']) expect((await service.call('GET', root + path)).status).toBe(200);
    }
    expect((await service.call('GET', '/homes', { token })).status).toBe(404);
    expect((await service.call('GET', '/v2/version')).status).toBe(404);
  });

  it('return 405 with the methods of the path', async () => {
    const { status, headers, body } = await service.call('PUT', '/v1/homes', { token, body: {} });
    expect(status).toBe(405);
    expect(body.code).toBe('METHOD_NOT_ALLOWED');
    expect(headers.get('allow')).toBe('POST, GET, HEAD, OPTIONS');
    const options = await service.call('OPTIONS', '/v1/homes');
    expect([options.status, options.headers.get('allow')]).toEqual([204, 'POST, GET, HEAD, OPTIONS']);
  });

  it('answer HEAD as GET, without the body', async () => {
    const { status, headers, body } = await service.call('HEAD', '/version');
    expect([status, body]).toEqual([200, '']);
    expect(Number(headers.get('content-length'))).toBeGreaterThan(10);
  });

  it('allow one trailing slash, and not two', async () => {
    expect((await service.call('GET', '/v1/homes/', { token })).status).toBe(200);
    expect((await service.call('GET', '/v1/homes//', { token })).status).toBe(404);
    expect((await service.call('GET', '/v1//homes', { token })).status).toBe(404);
  });

  it('return the same for an invalid id as for a missing one', async () => {
    const missing = await service.call('PATCH', '/v1/homes/0190a000-0000-7000-8000-000000000000', { token, body: {} });
    expect(missing.status).toBe(404);
    const { instance: _, request_id: __, ...words } = missing.body;
    for (const id of [
      '1',
      'null',
      '..%2f..%2fetc',
      '%00',
      '%zz',
      '%ED%A0%80',
      "'%20or%201=1",
      '__proto__',
      'constructor',
    ]) {
      const { status, body } = await service.call('PATCH', `/v1/homes/${id}`, { token, body: {} });
      expect([id, status]).toEqual([id, 404]);
      expect(body).toMatchObject(words);
    }
  });

  it('accept ids in upper and lower case', async () => {
    const { body } = await post({ home_name: 'Case' });
    const { status } = await service.call('GET', `/v1/homes/${body.id.toUpperCase()}/rooms`, { token });
    expect(status).toBe(200);
  });

  it('include invalid request targets, which are refused', async () => {
    for (const target of ['*', 'http://elsewhere', 'ftp://elsewhere/v1/homes', '/%', '/v1', '/\\']) {
      const status = await new Promise((resolve) => {
        const { port } = new URL(service.url);
        request({ port, method: 'OPTIONS', path: target }, (response) => {
          response.resume();
          resolve(response.statusCode);
        }).end();
      });
      expect([target, status]).toEqual([target, 404]);
    }
  });
});

it('accepts an absolute URL as target, as a proxy sends it', async () => {
  const body = await new Promise<string>((resolve) => {
    const requested = request({ port: new URL(service.url).port, path: 'http://elsewhere/v1/version' }, (response) => {
      response.on('data', (data) => resolve(String(data)));
    });
    requested.end();
  });
  expect(JSON.parse(body)).toEqual({ version: '1.0.0', protocol: 'PROTO/3.0' });
});

it('checks the permission before the input', async () => {
  const nobody = await service.token('nobody');
  const { status, body } = await service.call('POST', '/v1/homes', { token: nobody, body: '{"home_name":' });
  expect([status, body.code]).toEqual([403, 'TENANT_REQUIRED']);
});

describe('bodies', () => {
  const cases: [string, unknown, number, Record<string, string>?][] = [
    ['malformed JSON', '{"home_name": "x"', 400],
    ['a repeated key', '{"home_name": "x", "home_name": "y"}', 400],
    ['a repeated key spelled otherwise', '{"home_name": "x", "home\\u005fname": "y"}', 400],
    ['an array', '[]', 400],
    ['a text', '"x"', 400],
    ['null', 'null', 400],
    ['U+0000', '{"home_name": "a\\u0000b"}', 400],
    ['a lone surrogate', '{"home_name": "\\ud800"}', 400],
    ['invalid UTF-8', Uint8Array.from([...Buffer.from('{"home_name": "'), 0xff, ...Buffer.from('"}')]), 400],
    ['a byte order mark', '\ufeff{"home_name": "x"}', 400],
    ['nesting over 32 levels', `{"home_name": ${'['.repeat(40)}${']'.repeat(40)}}`, 400],
    ['nesting that would end the stack', '['.repeat(100_000), 400],
    ['an unknown field', { home_name: 'x', owner: 'me' }, 400],
    ['__proto__', '{"home_name": "x", "__proto__": {"a": 1}}', 400],
    ['constructor', '{"home_name": "x", "constructor": 1}', 400],
    ["the path's own member", '{"home_name": "x", "homeId": "y"}', 400],
    ['a wrong type', { home_name: 7 }, 400],
    ['a missing field', {}, 400],
    ['no body', undefined, 400],
    ['a blank name', { home_name: '   ' }, 400],
    ['control characters', { home_name: 'a\nb' }, 400],
    ['a name of 101 characters', { home_name: 'x'.repeat(101) }, 400],
    ['an unknown time zone', { home_name: 'x', timezone: 'Mars/Olympus' }, 400],
    ['another media type', 'home_name=x', 415, { 'content-type': 'application/x-www-form-urlencoded' }],
    ['a text type', '{"home_name": "x"}', 415, { 'content-type': 'text/plain' }],
    ['another charset', '{"home_name": "x"}', 415, { 'content-type': 'application/json; charset=utf-16' }],
    ['a content coding', '{"home_name": "x"}', 415, { 'content-encoding': 'gzip' }],
    ['257 KiB', `{"home_name": "${'x'.repeat(257 * 1024)}"}`, 413],
  ];

  it.each(cases)('%s is refused', async (_, body, status, headers) => {
    const answer = await post(body, headers);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-type')).toBe('application/problem+json');
    expect(answer.headers.get('x-request-id')).toMatch(UUID);
    expect(answer.body.code).toBe(
      { 400: 'VALIDATION_FAILED', 413: 'PAYLOAD_TOO_LARGE', 415: 'UNSUPPORTED_MEDIA_TYPE' }[status],
    );
    if (status === 400) expect(answer.body.errors).toEqual([{ path: expect.any(String), message: expect.any(String) }]);
  });

  it('are refused with the name of each invalid field', async () => {
    const { body } = await post({ home_name: 5, timezone: 'nowhere', extra: 1, more: 2 });
    expect(body.errors.map(({ path }: { path: string }) => path).sort()).toEqual([
      'extra',
      'home_name',
      'more',
      'timezone',
    ]);
  });

  it('are UTF-8, declared or not, with names in any script', async () => {
    const name = 'Дом 家 🏠';
    const made = await post({ home_name: name }, { 'content-type': 'application/json; charset=UTF-8' });
    expect(made.status).toBe(201);
    const { body } = await service.call('GET', '/v1/homes?limit=1', { token });
    expect(body.homes[0].home_name).toBe(name);
  });

  it('are refused when a chunked body exceeds 256 KiB, and the connection stays usable', async () => {
    const chunk = Buffer.alloc(64 * 1024, 0x20);
    let sent = 0;
    const endless = new ReadableStream({
      pull(controller) {
        if (sent++ < 8) controller.enqueue(chunk);
        else controller.close();
      },
    });
    const response = await fetch(`${service.url}/v1/homes`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: endless,
      duplex: 'half',
    } as RequestInit);
    expect(response.status).toBe(413);
    expect((await service.call('GET', '/version')).status).toBe(200);
  });

  it('of a disconnected client are dropped', async () => {
    const { port } = new URL(service.url);
    const before = service.errors.length;
    const requested = once(service.server, 'request') as Promise<[IncomingMessage]>;
    const socket = connect(Number(port), '127.0.0.1');
    const head = `POST /v1/homes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n`;
    socket.write(`${head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"home`);
    const [received] = await requested;
    // Once a later request is answered, the first one is authenticated and waits for the rest of its body.
    expect((await service.call('GET', '/v1/homes', { token })).status).toBe(200);
    await eventLoopTurns();
    const left = once(received.socket, 'close');
    socket.destroy();
    await left;
    await eventLoopTurns();
    expect((await service.call('GET', '/version')).status).toBe(200);
    expect(service.errors.length).toBe(before);
  });

  it('can arrive with their headers or after them, in sequence on a connection', async () => {
    const { port } = new URL(service.url);
    const requested = (home_name: string) => {
      const body = JSON.stringify({ home_name });
      const head = `POST /v1/homes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n`;
      return `${head}Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
    };
    for (const step of [10_000, 1_000, 211, 17]) {
      const names = ['Äußeres Haus', 'x'.repeat(60), 'Ende'].map((name) => `${name} ${step}`);
      const bytes = Buffer.from(names.map(requested).join(''));
      const socket = connect(Number(port), '127.0.0.1').setNoDelay(true);
      let received = '';
      socket.on('data', (data) => {
        received += data;
      });
      for (let at = 0; at < bytes.length; at += step) {
        socket.write(bytes.subarray(at, at + step));
        await new Promise(setImmediate);
      }
      await eventually(() => received.match(/HTTP\/1\.1 201 /g)?.length === 3);
      socket.destroy();
      const { body } = await service.call('GET', '/v1/homes', { token });
      expect(body.homes.map((home: { home_name: string }) => home.home_name)).toEqual(expect.arrayContaining(names));
    }
  });
});

describe('queries', () => {
  it.each([
    ['an unknown parameter', 'color=red'],
    ['a repeated one', 'limit=1&limit=2'],
    ['a limit of 0', 'limit=0'],
    ['a limit of 201', 'limit=201'],
    ['a limit that is text', 'limit=ten'],
    ['a limit with a fraction', 'limit=1.5'],
    ['a limit in hexadecimal', 'limit=0x10'],
    ['an empty limit', 'limit='],
    ['broken percent-encoding', 'limit=%'],
    ['broken UTF-8', 'cursor=%ff'],
    ['__proto__', '__proto__=1'],
    ['a cursor that is none', 'cursor=abc'],
    ['NUL', 'cursor=%00'],
  ])('%s is 400', async (_, query) => {
    const { status, body } = await service.call('GET', `/v1/homes?${query}`, { token });
    expect([status, body.code]).toEqual([400, 'VALIDATION_FAILED']);
  });

  it('are refused on a POST', async () => {
    const { status } = await service.call('POST', '/v1/homes?a=1', { token, body: { home_name: 'x' } });
    expect(status).toBe(400);
  });
});

it('refuses new work while it drains, and still reports its health', async () => {
  service.state.draining = true;
  const refused = await service.call('GET', '/v1/homes', { token });
  const live = await service.call('GET', '/health/live');
  service.state.draining = false;
  expect([refused.status, refused.body.code, refused.headers.get('retry-after')]).toEqual([503, 'OVERLOADED', '1']);
  expect(live.status).toBe(200);
});

it('passes the pattern of the route to observers, never its path', async () => {
  service.observed.length = 0;
  await service.call('GET', '/v1/homes/abc/rooms', { token });
  await service.call('GET', '/nowhere');
  await expect.poll(() => service.observed.length).toBe(2);
  expect(service.observed).toEqual([
    { route: '/homes/{homeId}/rooms', status: 404 },
    { route: 'none', status: 404 },
  ]);
});
