import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { createLocalJWKSet, jwtVerify } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildPages } from '../../../scripts/build-pages.ts';
import { makeStandbyListener } from '../../../src/edges/rest/standby.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import type { MemoryStore } from '../../support/memory-store.ts';

let service: HttpService<MemoryStore>;
beforeAll(async () => {
  await buildPages('reference');
  const graphql: RequestListener = (_, response) => void response.end('elsewhere');
  const mcp: RequestListener = () => {
    throw new Error('a bug');
  };
  service = await startHttpService({ mounts: { graphql, mcp } });
});
afterAll(() => service.close());

const get = (path: string) => service.call('GET', path);

describe('metrics', () => {
  it('are served under every root, in Prometheus’ format, and count responses by the pattern of their route', async () => {
    const { token } = await service.owner();
    await service.call('GET', '/v1/homes/abc/rooms', { token });
    for (const path of ['/metrics', '/v1/metrics', '/api/v1/metrics']) {
      const { status, headers, body } = await get(path);
      expect(status).toBe(200);
      expect(headers.get('content-type')).toMatch(/^text\/plain; version=0\.0\.4/);
      expect(headers.get('x-request-id')).not.toBeNull();
      expect(body).toContain('twinkeep_http_requests_total{route="/homes/{homeId}/rooms",method="GET",status="404"} 1');
      expect(body).toContain('twinkeep_http_request_duration_seconds_bucket');
      expect(body).toContain('nodejs_eventloop_lag_p99_seconds');
      expect(body).not.toContain('abc');
    }
  });
});

describe('the public keys', () => {
  it('verify an internal token, and contain nothing private', async () => {
    const { body } = await get('/.well-known/jwks.json');
    expect(Object.keys(body.keys[0])).not.toContain('d');
    const verified = await jwtVerify(await service.token('ada'), createLocalJWKSet(body), { issuer: 'urn:twinkeep' });
    expect(verified.payload.sub).toBe('ada');
  });

  it('are served at the root only', async () => {
    expect((await get('/v1/.well-known/jwks.json')).status).toBe(404);
    expect((await get('/v1/openapi.json')).status).toBe(404);
  });
});

describe.each(['/docs', '/docs/events'])('the page %s', (path) => {
  it('loads only files of this service, without inline code or styles', async () => {
    const { status, headers, body } = await get(path);
    expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self';");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(body).not.toMatch(/https?:\/\/|<script>|<style|style=|onload=/);
    const files = [...body.matchAll(/(?:src|href)="(\/docs\/assets\/[^"]+)"/g)].map(([, file]) => file as string);
    expect(files.length).toBeGreaterThan(2);
    for (const file of files) {
      const asset = await get(file);
      expect([file, asset.status]).toEqual([file, 200]);
      expect(asset.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    }
  });
});

describe('the API reference', () => {
  it('serves no other file', async () => {
    for (const file of [
      '',
      'nothing.js',
      '..%2frest.html',
      '..%2fbuilt-from',
      '..%2f..%2f..%2fpackage.json',
      '__proto__',
      '%00',
    ]) {
      const { status } = await get(`/docs/assets/${file}`);
      expect([file, status]).toEqual([file, 404]);
    }
  });

  it('has no other method', async () => {
    expect((await service.call('POST', '/docs', { body: {} })).status).toBe(405);
  });
});

it('forwards requests of other edges', async () => {
  expect((await get('/graphql?x=1')).body).toBe('elsewhere');
  expect((await get('/graphqlx')).status).toBe(404);
});

it('answers for a bug of another edge without describing it', async () => {
  // Not validated against the API description, which does not contain this path.
  const answer = await fetch(new URL('/mcp', service.url));
  const body = (await answer.json()) as Record<string, unknown>;
  expect(answer.status).toBe(500);
  expect(body).toMatchObject({ code: 'INTERNAL', instance: '/mcp' });
  expect(JSON.stringify(body)).not.toContain('a bug');
  expect(service.errors).toMatchObject([{ err: { message: 'a bug' }, request_id: body.request_id }]);
});

describe('invalid HTTP', () => {
  const talk = (text: string) =>
    new Promise<string>((resolve) => {
      let answer = '';
      const socket = connect(Number(new URL(service.url).port), '127.0.0.1', () => socket.write(text));
      socket.on('data', (chunk) => {
        answer += chunk;
      });
      socket.on('close', () => resolve(answer));
    });

  it.each([
    ['nonsense', 'nonsense\r\n\r\n', 400],
    ['two lengths', 'POST /v1/homes HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n', 400],
    [
      'a length and chunks',
      'POST /v1/homes HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
    ],
    ['headers without end', `GET /version HTTP/1.1\r\nHost: x\r\nA: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ])('%s is answered with a problem document and the connection is closed', async (_, text, status) => {
    const answer = await talk(text);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(answer).toContain('X-Request-ID: ');
    expect(answer).toContain('X-API-Version: 1');
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))).toMatchObject({ status, code: 'VALIDATION_FAILED' });
  });

  it('with an unknown expectation is accepted', async () => {
    expect(await talk('GET /version HTTP/1.1\r\nHost: x\r\nExpect: miracles\r\nConnection: close\r\n\r\n')).toMatch(
      /^HTTP\/1\.1 200 /,
    );
  });
});

describe('a standby process', () => {
  it('is live, not ready, and refuses everything else', async () => {
    const server = createServer(
      makeStandbyListener({
        ...{ newId: service.services.newId, clockOffsetMs: () => null, uptimeS: () => 3 },
        whenActive: async () => null,
      }),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const request = async (path: string) => {
      const response = await fetch(url + path);
      return { status: response.status, headers: response.headers, body: await response.json() };
    };
    for (const root of ['', '/v1', '/api/v1']) {
      expect(await request(`${root}/health/live`)).toMatchObject({ status: 200, body: { status: 'alive', uptime: 3 } });
      expect(await request(`${root}/health/ready`)).toMatchObject({ status: 503, body: { status: 'standby' } });
      expect(await request(`${root}/health`)).toMatchObject({ status: 503, body: { status: 'degraded' } });
      expect(await request(`${root}/version`)).toMatchObject({ status: 503, body: { code: 'STANDBY' } });
    }
    const { headers } = await request('/v1/homes');
    expect([headers.get('retry-after'), headers.get('x-api-version')]).toEqual(['5', '1']);
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  });

  it('that is active soon lets requests wait for it, except health checks', async () => {
    const active = Promise.withResolvers<RequestListener>();
    const server = createServer(
      makeStandbyListener({
        ...{ newId: service.services.newId, clockOffsetMs: () => null, uptimeS: () => 3 },
        whenActive: () => active.promise,
      }),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const waiting = fetch(`${url}/v1/homes`);
    expect((await fetch(`${url}/health/ready`)).status).toBe(503);
    active.resolve((request, response) => response.end(`served ${request.url}`));
    expect(await (await waiting).text()).toBe('served /v1/homes');
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  });
});
