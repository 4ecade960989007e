import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HttpService } from '../support/http-service.ts';
import { fc, seed } from '../support/properties.ts';
import { slow } from '../support/slow.ts';
import { startHttpServiceOnDatabase } from '../support/test-tenant.ts';

let service: HttpService;
let token: string;
beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
  token = (await service.owner()).token;
});
afterAll(() => service.close());

/** Everything received on one connection for these bytes; the client closes its side after sending. */
function talk(bytes: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1', () => socket.end(bytes));
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => {});
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('latin1')));
  });
}

const method = fc.constantFrom(
  'GET',
  'POST',
  'get',
  'BREW',
  'G ET',
  'HEAD',
  'OPTIONS',
  'TRACE',
  'CONNECT',
  'PRI',
  '',
  'PATCH',
);
const target = fc.oneof(
  fc.constantFrom(
    ...[
      '/v1/homes',
      '/v1/devices?limit=1',
      '*',
      'http://evil.example/v1/homes',
      '//v1//homes',
      '/v1/homes#x',
      '/v1/../v1/homes',
    ],
    ...[
      '/v1/homes ?x',
      '\\v1\\homes',
      '/%',
      '/\u0001',
      '/v1/homes/%00',
      '',
      '/é',
      `/${'a'.repeat(10_000)}`,
      '/ws/state',
      '/mqtt',
    ],
  ),
  fc.string({ maxLength: 30 }),
);
const version = fc.constantFrom('HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9', 'HTTP/9', 'http/1.1', '');
const header = fc.oneof(
  fc.constantFrom(
    ...[
      'Host: x',
      'Host: x\r\nHost: y',
      'Content-Length: 2',
      'Content-Length: -1',
      'Content-Length: 1e3',
      'Content-Length: 2, 3',
    ],
    ...[
      'Transfer-Encoding: chunked',
      'Transfer-Encoding: gzip, chunked',
      'Transfer-Encoding: chunked, identity',
      'Transfer-Encoding :chunked',
    ],
    ...[
      'Content-Type: application/json',
      'Connection: close',
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Upgrade: h2c',
      'Expect: 100-continue',
    ],
    ...[
      'Expect: miracles',
      ' folded: x',
      'X: a\r\n b',
      'NoColon',
      ': no name',
      'X:\u0000',
      'X: \u007f',
      'Sec-WebSocket-Key: x',
    ],
    ...[`A: ${'x'.repeat(20_000)}`, 'Cookie: a=b; twinkeep_session=x', 'Authorization: Bearer', 'X-Request-ID: é'],
    ...Array.from({ length: 3 }, (_, n) => `X-Many-${n}: ${'y'.repeat(1_000)}`),
  ),
  fc.string({ maxLength: 20 }),
);
const body = fc.oneof(
  fc.constantFrom(
    '',
    '{}',
    '{"home_name":"x"}',
    '2\r\n{}\r\n0\r\n\r\n',
    'ffffffffffffffff\r\n',
    '-1\r\n',
    '0\r\nTrailer: x\r\n\r\n',
  ),
  fc.string({ unit: 'binary', maxLength: 50 }),
);
const end = fc.constantFrom('\r\n', '\n', '\r', '\n\n');

const junk: fc.Arbitrary<Buffer> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({ method, target, version, headers: fc.array(header, { maxLength: 5 }), body, end, signed: fc.boolean() })
      .map((sent) => {
        const eol = sent.end === '\n\n' ? '\n' : sent.end;
        const credential = sent.signed ? [`Authorization: Bearer ${token}`] : [];
        const head = [`${sent.method} ${sent.target} ${sent.version}`, ...credential, ...sent.headers].join(eol);
        return Buffer.from(`${head}${eol}${eol}${sent.body}`, 'latin1');
      }),
  },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
      Buffer.from('16030100a5010000a10303', 'hex'),
      Buffer.from('101000044d5154540402003c000474657374', 'hex'),
      Buffer.from('GET /version HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(50)),
      Buffer.from('GET /version HTTP/1.1\r\nHost: x\r\n\r\nnonsense\r\n\r\n'),
    ),
  },
);

describe(`random bytes (seed ${seed})`, () => {
  it('get HTTP responses without a server fault, or none', slow, async () => {
    await fc.assert(
      fc.asyncProperty(junk, async (bytes) => {
        const answer = await talk(bytes);
        const statuses = [...answer.matchAll(/(?:^|\r\n|})HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
        if (answer !== '') expect(answer).toMatch(/^HTTP\/1\.1 [1-5]\d\d /);
        expect(statuses.filter((status) => status >= 500)).toEqual([]);
        expect(service.errors).toEqual([]);
        expect(answer).not.toMatch(/at .*\.ts:\d+|node:internal|SQLSTATE/);
      }),
      { numRuns: 600 },
    );
    expect((await service.call('GET', '/version')).status).toBe(200);
  });
});
