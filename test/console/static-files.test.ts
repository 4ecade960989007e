import { request } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildPages } from '../../scripts/build-pages.ts';
import { startService, type TestService } from '../support/service.ts';

describe('the served console', () => {
  let at: TestService;
  let assets: string[];

  beforeAll(async () => {
    await buildPages('console');
    at = await startService({ PUBLIC_URL: 'https://twinkeep.example/under' });
    const page = await (await fetch(`${at.url}/console`)).text();
    assets = [...page.matchAll(/"(\/under\/console\/assets\/[^"]+)"/g)].map(([, path = '']) =>
      path.slice('/under'.length),
    );
  });
  afterAll(() => at?.stop());

  /** Requests without the decompression of `fetch`. */
  const raw = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    new Promise<{ status: number; headers: Record<string, unknown>; body: Buffer }>((resolve, reject) => {
      const { hostname, port } = new URL(at.url);
      // Sends the path unchanged; a URL would normalize it.
      request({ hostname, port, path, method, headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
        );
      })
        .on('error', reject)
        .end();
    });

  it('is one page for all its paths, revalidated on each use', async () => {
    const pages = await Promise.all(['/console', '/console/', '/console/actors/device/x?y'].map((path) => raw(path)));
    for (const { status, headers, body } of pages) {
      expect(status).toBe(200);
      expect(headers).toMatchObject({ 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' });
      expect(`${body}`).toBe(`${pages[0]?.body}`);
    }
    expect(assets.length).toBeGreaterThan(1);
  });

  it('allows no inline, evaluated or external script, and no framing', async () => {
    const { headers } = await raw('/console');
    const policy = `${headers['content-security-policy']}`;
    expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self';");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*/);
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'no-referrer',
      'x-api-version': '1',
    });
  });

  it('names its files by content, caches them forever, and compresses them for clients that accept it', async () => {
    for (const path of assets) {
      const plain = await raw(path);
      expect([path, plain.status]).toEqual([path, 200]);
      expect(path).toMatch(/-[\w-]{8}\.(js|css|svg)$/);
      expect(plain.headers).toMatchObject({
        'cache-control': 'public, max-age=31536000, immutable',
        vary: 'Accept-Encoding',
      });
      expect(plain.headers['content-encoding']).toBeUndefined();
      const zipped = await raw(path, { 'accept-encoding': 'br, gzip;q=0.8' });
      const isSmaller = zipped.headers['content-encoding'] === 'gzip';
      expect(isSmaller ? gunzipSync(zipped.body) : zipped.body).toEqual(plain.body);
      const refused = await raw(path, { 'accept-encoding': 'gzip;q=0' });
      expect(refused.headers['content-encoding']).toBeUndefined();
    }
  });

  it.each([
    '/console/assets/',
    '/console/assets/nothing.js',
    '/console/assets/../built-from',
    '/console/assets/%2e%2e/index.html',
    '/console/assets/..%2f..%2f..%2fpackage.json',
    '/console/assets/__proto__',
  ])('does not serve a file %s', async (path) => {
    const { status, headers, body } = await raw(path);
    expect([status, headers['content-type']]).toEqual([404, 'application/problem+json']);
    expect(JSON.parse(`${body}`)).toMatchObject({ code: 'NOT_FOUND' });
  });

  it('answers HEAD without a body, and refuses methods that change something', async () => {
    const head = await raw('/console', {}, 'HEAD');
    expect([head.status, head.body.length]).toEqual([200, 0]);
    const posted = await raw('/console', {}, 'POST');
    expect([posted.status, posted.headers.allow]).toEqual([405, 'GET, HEAD']);
  });

  it('is served at the root only, not at paths with the same prefix', async () => {
    for (const path of ['/v1/console', '/api/v1/console', '/consoles']) {
      expect([path, (await raw(path)).status]).toEqual([path, 404]);
    }
  });

  it('reports whether there is an identity provider, without a sign-in', async () => {
    expect(JSON.parse(`${(await raw('/console/about.json')).body}`)).toEqual({
      version: '1.0.0',
      identity_provider: false,
    });
  });
});

describe('the console and the request rate', () => {
  it('is charged as an anonymous request', async () => {
    const at = await startService({}, { limits: { rates: { anonymous: 2 } } });
    const statuses = [];
    for (let n = 0; n < 3; n++) statuses.push((await fetch(`${at.url}/console`)).status);
    await at.stop();
    expect(statuses).toEqual([200, 200, 429]);
  });
});
