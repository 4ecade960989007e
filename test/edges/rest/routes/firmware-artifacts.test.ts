import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { artifactFolder } from '../../../../src/store/artifact-folder.ts';
import { bufferBytesInUse } from '../../../support/buffer-memory.ts';
import { eventually } from '../../../support/clock.ts';
import { type HttpService, startHttpService, startHttpServiceOn } from '../../../support/http-service.ts';
import { slow } from '../../../support/slow.ts';
import { openPostgres, openSharedPglite } from '../../../support/store.ts';
import { makeTestTenant, type TestTenant } from '../../../support/test-tenant.ts';

const HOUR_MS = 3_600_000;
const octets = { headers: { 'content-type': 'application/octet-stream' } };
const sumOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

interface Started {
  service: HttpService;
  /** Names of the stored artifacts; with `.part` while they are incomplete. */
  files(): Promise<string[]>;
  close(): Promise<void>;
}

async function startWithFolder(): Promise<Started> {
  const folder = mkdtempSync(join(tmpdir(), 'twinkeep-artifacts-'));
  const service = await startHttpService({ artifactFiles: artifactFolder(folder) });
  return {
    service,
    files: async () => readdirSync(folder).sort(),
    async close() {
      await service.close();
      rmSync(folder, { recursive: true });
    },
  };
}

async function startWithDatabase(open: () => ReturnType<typeof openSharedPglite>): Promise<Started> {
  const { backend, close } = await open();
  const { store, database } = backend;
  const { artifactFiles } = store;
  const service = await startHttpServiceOn(store, { artifactFiles }, async (userId, { tenantId, role }) => {
    const text = 'update users set tenant_id = coalesce($2, tenant_id), role = coalesce($3, role) where id = $1';
    await database.write({ text, values: [userId, tenantId ?? null, role ?? null] });
  });
  return {
    service,
    async files() {
      const text = 'select name, bytes from artifacts order by name';
      const rows = await database.read<{ name: string; bytes: number | null }>({ text });
      return rows.map(({ name, bytes }) => (bytes === null ? `${name}.part` : name));
    },
    async close() {
      await service.close();
      await close();
    },
  };
}

const serverUrl = inject('postgresUrl');
const kinds = [
  { kind: 'folder', start: startWithFolder },
  { kind: 'PGlite', start: () => startWithDatabase(openSharedPglite) },
  ...(serverUrl === null
    ? []
    : [{ kind: 'PostgreSQL', start: () => startWithDatabase(() => openPostgres(serverUrl)) }]),
];

describe.each(kinds)('artifacts in $kind:', ({ kind, start }) => {
  let started: Started;
  let service: HttpService;
  let mine: TestTenant;
  let id: string;
  let version = 0;

  beforeAll(async () => {
    started = await start();
    service = started.service;
    mine = await makeTestTenant(service);
  });
  beforeEach(async () => {
    id = await draft();
  });
  afterAll(() => started.close());

  async function draft(more: object = {}): Promise<string> {
    const requested = { device_type: 'smart_light', version: `1.${++version}.0`, ...more };
    const { body } = await mine.call('POST', '/firmware/release', requested);
    return body.id;
  }
  const upload = (bytes: Buffer, to = id, sent: object = octets) =>
    mine.call('PUT', `/firmware/${to}/artifact`, bytes, sent);
  const files = () => started.files();
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
      const before = await files();
      await upload(Buffer.from('first'), of);
      const old = await urlOf(of);
      const { body } = await upload(Buffer.from('second'), of);
      expect(body.release.checksum).toBe(sumOf(Buffer.from('second')));
      expect((await fetchBytes(body.release.url)).bytes.toString()).toBe('second');
      // The URL names the release, whose artifact was replaced.
      expect((await fetchBytes(old)).bytes.toString()).toBe('second');
      expect(await files()).toHaveLength(before.length + 1);
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

    it('that is interrupted leaves nothing', async () => {
      const before = await files();
      const { port } = new URL(service.url);
      const socket = connect(Number(port), '127.0.0.1');
      socket.write(
        `PUT /v1/firmware/${id}/artifact HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${mine.tokens.owner}\r\n` +
          'Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\nhalf',
      );
      await eventually(async () => (await files()).some((name) => name.endsWith('.part')));
      socket.destroy();
      await eventually(async () => (await files()).join() === before.join());
      expect((await mine.call('GET', `/firmware/${id}`)).body.release).toMatchObject({ checksum: null, url: null });
      expect(service.errors).toEqual([]);
      // The file is deleted first, its row afterwards.
      await eventually(
        async () => (await service.store.firmware.orphanedArtifacts(Number.MAX_SAFE_INTEGER)).length === 0,
      );
    });

    it('whose draft was withdrawn in the meantime is refused and leaves nothing', async () => {
      const before = await files();
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
      await eventually(async () => (await files()).some((name) => name.endsWith('.part')));
      await mine.call('POST', `/firmware/${id}/withdraw`);
      finish();
      expect((await answer).status).toBe(409);
      expect(await files()).toEqual(before);
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
      await eventually(async () => (await files()).filter((name) => name.endsWith('.part')).length === 2);
      const third = await upload(Buffer.from('x'), await draft());
      expect(third).toMatchObject({ status: 503, body: { code: 'OVERLOADED' } });
      expect(third.headers.get('retry-after')).toBe('5');
      for (const finish of finishes) finish();
      expect((await Promise.all(running)).map(({ status }) => status)).toEqual([200, 200]);
    });

    it('that a crash left is deleted when no upload can still be running', async () => {
      const name = '0195d9a2-7f00-7000-8000-0000000000aa';
      const before = await files();
      await service.store.firmware.beginArtifact(name, service.clock.now());
      await service.services.artifacts.removeOrphans();
      expect(await service.store.firmware.orphanedArtifacts(Number.MAX_SAFE_INTEGER)).toEqual([name]);
      service.clock.advance(HOUR_MS + 1);
      await service.services.artifacts.removeOrphans();
      expect(await service.store.firmware.orphanedArtifacts(Number.MAX_SAFE_INTEGER)).toEqual([]);
      expect(await files()).toEqual(before);
      service.clock.advance(-HOUR_MS - 1);
    });
  });

  // The limit does not depend on the store. `test/store/contract/artifact-files.test.ts` writes 16 MiB to each.
  if (kind === 'folder') {
    describe('an upload of 64 MiB', () => {
      const most = 64 * 1024 * 1024;
      /** Without a Content-Length. Not by `fetch`, which reads the body ahead of a server that is slower. */
      const send = async (bytes: number, atLast = () => {}) => {
        const chunk = Buffer.alloc(1024 * 1024, 7);
        const sending = request(`${service.url}/v1/firmware/${id}/artifact`, {
          method: 'PUT',
          headers: { authorization: `Bearer ${mine.tokens.owner}`, ...octets.headers },
        });
        const answer = once(sending, 'response') as Promise<[IncomingMessage]>;
        for (let left = bytes; left > 0; left -= chunk.length) {
          if (left <= chunk.length) atLast();
          if (!sending.write(chunk.subarray(0, Math.min(left, chunk.length)))) await once(sending, 'drain');
        }
        sending.end();
        const [response] = await answer;
        return { status: response.statusCode, body: await json(response) };
      };

      it('is accepted', slow, async () => {
        const before = await files();
        const heldBefore = bufferBytesInUse();
        let held = Number.POSITIVE_INFINITY;
        // All but the last part has been sent by then, so it must be on disk and not in memory.
        const atLast = () => {
          held = bufferBytesInUse() - heldBefore;
        };
        expect((await send(most, atLast)).status).toBe(200);
        expect(held).toBeLessThan(most / 4);
        expect(await files()).toHaveLength(before.length + 1);
      });

      it('and one byte is refused and leaves nothing, without a Content-Length', async () => {
        const before = await files();
        expect(await send(most + 1)).toMatchObject({ status: 413, body: { code: 'PAYLOAD_TOO_LARGE' } });
        expect(await files()).toEqual(before);
      });

      it('and one byte is refused and leaves nothing, with a Content-Length', async () => {
        const before = await files();
        const sent = await fetch(`${service.url}/v1/firmware/${id}/artifact`, {
          method: 'PUT',
          headers: { authorization: `Bearer ${mine.tokens.owner}`, ...octets.headers },
          body: Buffer.alloc(most + 1),
        });
        expect(sent.status).toBe(413);
        expect(await files()).toEqual(before);
      });
    });
  }

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
      expect((await fetchBytes(url, { 'if-none-match': etag, 'cache-control': 'max-age=0' })).response.status).toBe(
        304,
      );
      expect((await fetchBytes(url, { 'if-match': etag })).response.status).toBe(200);
      expect((await fetchBytes(url, { 'if-match': '"another"' })).response.status).toBe(412);
      const head = await fetchBytes(url, {}, 'HEAD');
      expect([head.response.status, head.response.headers.get('content-length')]).toEqual([200, '10']);
    });

    it('of a withdrawn release is refused, and its file is deleted', async () => {
      await mine.call('POST', `/firmware/${id}/release`);
      const url = await urlOf();
      const before = await files();
      const withdrawn = await mine.call('POST', `/firmware/${id}/withdraw`);
      expect(withdrawn.body.release).toMatchObject({ url: null, checksum: sumOf(bytes) });
      expect((await fetchBytes(url)).response.status).toBe(410);
      expect(await files()).toHaveLength(before.length - 1);
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
});
