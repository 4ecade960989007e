import { createHash, randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bufferBytesInUse } from '../../../support/buffer-memory.ts';
import { eventually } from '../../../support/clock.ts';
import { type HttpService, startHttpService } from '../../../support/http-service.ts';
import type { MemoryStore } from '../../../support/memory-store.ts';
import { makeTestTenant, type TestTenant } from '../../../support/test-tenant.ts';

const HOUR_MS = 3_600_000;
const octets = { headers: { 'content-type': 'application/octet-stream' } };
const sumOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

let service: HttpService<MemoryStore>;
let mine: TestTenant;
let id: string;
let version = 0;

beforeAll(async () => {
  service = await startHttpService();
  mine = await makeTestTenant(service);
});
beforeEach(async () => {
  id = await draft();
});
afterAll(() => service.close());

async function draft(more: object = {}): Promise<string> {
  const requested = { device_type: 'smart_light', version: `1.${++version}.0`, ...more };
  const { body } = await mine.call('POST', '/firmware/release', requested);
  return body.id;
}
const upload = (bytes: Buffer, to = id, sent: object = octets) =>
  mine.call('PUT', `/firmware/${to}/artifact`, bytes, sent);
const files = (): string[] => {
  try {
    return readdirSync(dirname(service.services.artifacts.pathOf('x'))).sort();
  } catch {
    return [];
  }
};
const urlOf = async (of = id): Promise<string> => (await mine.call('GET', `/firmware/${of}`)).body.release.url;
const fetchBytes = async (url: string, headers: Record<string, string> = {}, method = 'GET') => {
  const response = await fetch(url, { headers, method });
  return { response, bytes: Buffer.from(await response.arrayBuffer()) };
};

describe('an upload', () => {
  it('is stored completely with its checksum, and served at a signed URL without a bearer', async () => {
    const bytes = randomBytes(1_000_000);
    const { status, body } = await upload(bytes);
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'uploaded', id, release: { id, status: 'draft', checksum: sumOf(bytes) } });
    const { response, bytes: fetched } = await fetchBytes(body.release.url);
    expect(response.status).toBe(200);
    expect(fetched.equals(bytes)).toBe(true);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-length': '1000000',
      'content-type': 'application/octet-stream',
      'content-disposition': `attachment; filename="smart_light-1.${version}.0.bin"`,
      etag: `"${sumOf(bytes)}"`,
      'accept-ranges': 'bytes',
      'x-api-version': '1',
      'x-content-type-options': 'nosniff',
    });
  });

  it('replaces an earlier one or an external URL, and leaves no other file', async () => {
    const of = await draft({ url: 'https://example.com/a', checksum: 'a'.repeat(64) });
    const before = files();
    await upload(Buffer.from('first'), of);
    const old = await urlOf(of);
    const { body } = await upload(Buffer.from('second'), of);
    expect(body.release.checksum).toBe(sumOf(Buffer.from('second')));
    expect((await fetchBytes(body.release.url)).bytes.toString()).toBe('second');
    // The URL names the release, whose artifact was replaced.
    expect((await fetchBytes(old)).bytes.toString()).toBe('second');
    expect(files()).toHaveLength(before.length + 1);
  });

  it('is accepted for a draft only', async () => {
    await upload(Buffer.from('one'));
    await mine.call('POST', `/firmware/${id}/release`);
    const refused = { status: 409, body: { code: 'ILLEGAL_TRANSITION' } };
    expect(await upload(Buffer.from('two'))).toMatchObject(refused);
    await mine.call('POST', `/firmware/${id}/withdraw`);
    expect(await upload(Buffer.from('two'))).toMatchObject(refused);
  });

  it('must be application/octet-stream without a coding, and not empty', async () => {
    const bad = (headers: Record<string, string>) => upload(Buffer.from('x'), id, { headers });
    const refused = { status: 415, body: { code: 'UNSUPPORTED_MEDIA_TYPE' } };
    expect(await bad({ 'content-type': 'application/json' })).toMatchObject(refused);
    expect(await bad({ 'content-type': 'text/plain' })).toMatchObject(refused);
    expect(await bad({ ...octets.headers, 'content-encoding': 'gzip' })).toMatchObject(refused);
    expect(await upload(Buffer.alloc(0))).toMatchObject({ status: 400, body: { code: 'VALIDATION_FAILED' } });
    expect((await mine.call('PUT', `/firmware/${id}/artifact?x=1`, Buffer.from('x'), octets)).status).toBe(400);
    expect((await mine.call('GET', `/firmware/${id}`)).body.release.checksum).toBeNull();
  });

  it('can be up to 64 MiB, with or without a Content-Length', async () => {
    const before = files();
    const chunk = Buffer.alloc(1024 * 1024, 7);
    let atLast = () => {};
    const send = async (bytes: number, headers: Record<string, string> = {}) => {
      async function* body() {
        for (let left = bytes; left > 0; left -= chunk.length) {
          if (left <= chunk.length) atLast();
          yield chunk.subarray(0, Math.min(left, chunk.length));
        }
      }
      const response = await fetch(`${service.url}/v1/firmware/${id}/artifact`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${mine.tokens.owner}`, ...octets.headers, ...headers },
        body: body(),
        duplex: 'half',
      } as RequestInit);
      return { status: response.status, body: await response.json() };
    };
    const most = 64 * 1024 * 1024;
    expect(await send(most + 1)).toMatchObject({ status: 413, body: { code: 'PAYLOAD_TOO_LARGE' } });
    expect(files()).toEqual(before);
    const heldBefore = bufferBytesInUse();
    let held = Number.POSITIVE_INFINITY;
    // All but the last part has been sent by then, so it must be on disk and not in memory.
    atLast = () => {
      held = bufferBytesInUse() - heldBefore;
    };
    expect((await send(most)).status).toBe(200);
    expect(held).toBeLessThan(most / 4);
    expect(files()).toHaveLength(before.length + 1);
    const sent = await fetch(`${service.url}/v1/firmware/${id}/artifact`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${mine.tokens.owner}`, ...octets.headers },
      body: Buffer.alloc(most + 1),
    });
    expect(sent.status).toBe(413);
  });

  it('that is interrupted leaves nothing', async () => {
    const before = files();
    const { port } = new URL(service.url);
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(
      `PUT /v1/firmware/${id}/artifact HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${mine.tokens.owner}\r\n` +
        'Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\nhalf',
    );
    await eventually(() => files().some((name) => name.endsWith('.part')));
    socket.destroy();
    await eventually(() => files().join() === before.join());
    expect((await mine.call('GET', `/firmware/${id}`)).body.release).toMatchObject({ checksum: null, url: null });
    expect(service.errors).toEqual([]);
    // The file is deleted first, its row afterwards.
    await eventually(
      async () => (await service.store.firmware.orphanedArtifacts(Number.MAX_SAFE_INTEGER)).length === 0,
    );
  });

  it('whose draft was withdrawn in the meantime is refused and leaves nothing', async () => {
    const before = files();
    let finish = () => {};
    async function* body() {
      yield Buffer.from('begun');
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      yield Buffer.from('ended');
    }
    const answer = fetch(`${service.url}/v1/firmware/${id}/artifact`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${mine.tokens.owner}`, ...octets.headers },
      body: body(),
      duplex: 'half',
    } as RequestInit);
    await eventually(() => files().some((name) => name.endsWith('.part')));
    await mine.call('POST', `/firmware/${id}/withdraw`);
    finish();
    expect((await answer).status).toBe(409);
    expect(files()).toEqual(before);
  });

  it('can run concurrently with one other of its tenant', async () => {
    const finishes: (() => void)[] = [];
    async function* body() {
      yield Buffer.from('begun');
      await new Promise<void>((resolve) => finishes.push(resolve));
    }
    const put = async (to: string) =>
      fetch(`${service.url}/v1/firmware/${to}/artifact`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${mine.tokens.owner}`, ...octets.headers },
        body: body(),
        duplex: 'half',
      } as RequestInit);
    const running = [put(await draft()), put(await draft())];
    await eventually(() => files().filter((name) => name.endsWith('.part')).length === 2);
    const third = await upload(Buffer.from('x'), await draft());
    expect(third).toMatchObject({ status: 503, body: { code: 'OVERLOADED' } });
    expect(third.headers.get('retry-after')).toBe('5');
    for (const finish of finishes) finish();
    expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200]);
  });

  it('that a crash left is deleted when no upload can still be running', async () => {
    const name = '0195d9a2-7f00-7000-8000-0000000000aa';
    const before = files();
    await service.store.firmware.beginArtifact(name, service.clock.now());
    await service.services.artifacts.removeOrphans();
    expect(await service.store.firmware.orphanedArtifacts(Number.MAX_SAFE_INTEGER)).toEqual([name]);
    service.clock.advance(HOUR_MS + 1);
    await service.services.artifacts.removeOrphans();
    expect(await service.store.firmware.orphanedArtifacts(Number.MAX_SAFE_INTEGER)).toEqual([]);
    expect(files()).toEqual(before);
    service.clock.advance(-HOUR_MS - 1);
  });
});

describe('a signed URL', () => {
  const bytes = Buffer.from('0123456789');
  beforeEach(async () => {
    await upload(bytes);
  });

  it('is valid for an hour', async () => {
    const url = await urlOf();
    expect(Number(new URL(url).searchParams.get('expires'))).toBe(service.clock.now() + HOUR_MS);
    service.clock.advance(HOUR_MS - 1);
    expect((await fetchBytes(url)).response.status).toBe(200);
    service.clock.advance(1);
    const { response, bytes: notified } = await fetchBytes(url);
    expect([response.status, JSON.parse(notified.toString()).code]).toEqual([403, 'FORBIDDEN']);
    expect(notified.toString()).not.toContain('signature=');
    service.clock.advance(-HOUR_MS);
  });

  it('is valid under both roots, for its own release and time only', async () => {
    const url = await urlOf();
    const other = await draft();
    await upload(Buffer.from('secret'), other);
    expect((await fetchBytes(url.replace('/v1/', '/api/v1/'))).response.status).toBe(200);
    expect((await fetchBytes(url.replace(id, id.toUpperCase()))).response.status).toBe(200);
    const wrong = [
      url.replace(id, other),
      url.replace(/expires=\d+/, `expires=${service.clock.now() + 2 * HOUR_MS}`),
      url.replace(/signature=.{4}/, 'signature=AAAA'),
    ];
    for (const one of wrong) expect((await fetchBytes(one)).response.status).toBe(403);
    for (const one of [url.replace(/&signature=.*/, ''), `${url}&more=1`, url.replace(/\?.*/, '')]) {
      expect((await fetchBytes(one)).response.status).toBe(400);
    }
  });

  it('supports ranges, so that a device can resume', async () => {
    const url = await urlOf();
    const etag = `"${sumOf(bytes)}"`;
    const range = async (text: string, more = {}) => {
      const { response, bytes: got } = await fetchBytes(url, { range: text, ...more });
      return [response.status, got.toString(), response.headers.get('content-range')];
    };
    expect(await range('bytes=4-')).toEqual([206, '456789', 'bytes 4-9/10']);
    expect(await range('bytes=0-3')).toEqual([206, '0123', 'bytes 0-3/10']);
    expect(await range('bytes=-2')).toEqual([206, '89', 'bytes 8-9/10']);
    expect(await range('bytes=4-', { 'if-range': etag })).toEqual([206, '456789', 'bytes 4-9/10']);
    expect(await range('bytes=4-', { 'if-range': '"another"' })).toEqual([200, '0123456789', null]);
    expect(await range('bytes=10-')).toEqual([416, '', 'bytes */10']);
    expect((await fetchBytes(url, { 'if-none-match': etag, 'cache-control': 'max-age=0' })).response.status).toBe(304);
    expect((await fetchBytes(url, { 'if-match': etag })).response.status).toBe(200);
    expect((await fetchBytes(url, { 'if-match': '"another"' })).response.status).toBe(412);
    const head = await fetchBytes(url, {}, 'HEAD');
    expect([head.response.status, head.response.headers.get('content-length')]).toEqual([200, '10']);
  });

  it('of a withdrawn release is refused, and its file is deleted', async () => {
    await mine.call('POST', `/firmware/${id}/release`);
    const url = await urlOf();
    const before = files();
    const withdrawn = await mine.call('POST', `/firmware/${id}/withdraw`);
    expect(withdrawn.body.release).toMatchObject({ url: null, checksum: sumOf(bytes) });
    expect((await fetchBytes(url)).response.status).toBe(410);
    expect(files()).toHaveLength(before.length - 1);
  });

  it('of a suspended tenant is refused until it is resumed', async () => {
    const url = await urlOf();
    const turn = (type: string) =>
      service.runtime.actors.send({ kind: 'tenant', id: mine.tenantId }, { type, at: service.clock.now() });
    await turn('suspend');
    expect((await fetchBytes(url)).response.status).toBe(403);
    await turn('resume');
    expect((await fetchBytes(url)).response.status).toBe(200);
  });

  it('whose file is lost is answered as gone, without a path', async () => {
    const url = await urlOf();
    const { artifact } = (await service.store.firmware.findInAnyTenant(id)) ?? {};
    await service.services.artifacts.discard(artifact?.name ?? '');
    const { response, bytes: notified } = await fetchBytes(url);
    expect([response.status, JSON.parse(notified.toString()).code]).toEqual([410, 'GONE']);
    expect(notified.toString()).not.toContain(artifact?.name);
    expect(response.headers.get('content-type')).toBe('application/problem+json');
  });
});
