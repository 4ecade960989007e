import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type FirmwareWanted, fetchFirmware } from '../../../src/device/firmware/fetch.ts';
import { firmwareTestKey } from '../../support/firmware-key.ts';

const content = randomBytes(300_000);
const checksum = createHash('sha256').update(content).digest('hex');
const ETAG = '"one"';

let server: Server;
let url: string;
let answer: RequestListener;
let requested: IncomingMessage['headers'][] = [];
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-firmware-'));

beforeAll(async () => {
  server = createServer((request, response) => {
    requested.push(request.headers);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/fw`;
});
afterEach(() => {
  requested = [];
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

const whole: RequestListener = (_request, response) => response.end(content);

/** Serves the artifact as the service does; breaks the connection after `breakAfter` bytes of a response. */
const ranged =
  (breakAfter = Number.POSITIVE_INFINITY, etag = ETAG): RequestListener =>
  (request, response) => {
    const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? '');
    const from = range !== null && request.headers['if-range'] === etag ? Number(range[1]) : 0;
    const rest = content.subarray(from);
    response.writeHead(from > 0 ? 206 : 200, {
      'Content-Length': rest.length,
      ETag: etag,
      ...(from > 0 && { 'Content-Range': `bytes ${from}-${content.length - 1}/${content.length}` }),
    });
    if (rest.length <= breakAfter) response.end(rest);
    else response.write(rest.subarray(0, breakAfter), () => response.destroy());
  };

const wanted = (more: Partial<FirmwareWanted> = {}): FirmwareWanted => ({
  url,
  checksum,
  trustedHosts: ['127.0.0.1'],
  pauseMs: 1,
  ...more,
});
const status =
  (code: number, headers = {}) =>
  (_: IncomingMessage, response: ServerResponse) => {
    response.writeHead(code, headers).end();
  };

describe('firmware', () => {
  it('is downloaded into memory with progress reports, and verified', async () => {
    answer = ranged();
    const seen: [number, number | null][] = [];
    const fetched = await fetchFirmware(wanted({ progress: (...notified) => seen.push(notified) }));
    expect(fetched.bytes).toBe(content.length);
    expect(fetched.content?.equals(content)).toBe(true);
    expect(seen.at(-1)).toEqual([content.length, content.length]);
    expect(requested[0]).toMatchObject({ 'accept-encoding': 'identity' });
    expect(requested[0]).not.toHaveProperty('authorization');
  });

  it('is downloaded into a file, which exists only after verification', async () => {
    answer = ranged();
    const file = join(folder, 'fw.bin');
    expect(await fetchFirmware(wanted({ file, checksum: checksum.toUpperCase() }))).toEqual({
      bytes: content.length,
      content: null,
    });
    expect(readFileSync(file).equals(content)).toBe(true);
    rmSync(file);
    const tampered = fetchFirmware(wanted({ file, checksum: 'a'.repeat(64) }));
    await expect(tampered).rejects.toThrow('the checksum does not match');
    expect(readdirSync(folder)).toEqual([]);
  });

  it('that must be signed is not requested without a valid signature, and is no longer than the signed size', async () => {
    answer = whole;
    const key = firmwareTestKey();
    const signed = (size: number, signature: string | null) =>
      wanted({
        signed: {
          publicKeys: [key.publicKey],
          deviceType: 'smart_light',
          params: { version: '1.5.0', size, signature },
        },
      });
    const signature = key.sign(content);
    for (const invalid of [null, firmwareTestKey().sign(content), key.sign(content, { version: '1.4.0' })]) {
      await expect(fetchFirmware(signed(content.length, invalid))).rejects.toMatchObject({ name: 'SignatureRefused' });
    }
    expect(requested).toEqual([]);
    expect((await fetchFirmware(signed(content.length, signature))).content?.equals(content)).toBe(true);
    // Signed with a wrong size: the download ends there.
    const short = content.length - 1;
    const mismatch = fetchFirmware(signed(short, key.sign(content, { size: short })));
    await expect(mismatch).rejects.toThrow(`larger than ${short} bytes`);
  });

  it('resumes a broken download', async () => {
    answer = ranged(100_000);
    const fetched = await fetchFirmware(wanted());
    expect(fetched.content?.equals(content)).toBe(true);
    expect(requested.map(({ range }) => range)).toEqual([undefined, 'bytes=100000-', 'bytes=200000-']);
    expect(requested[1]).toMatchObject({ 'if-range': ETAG });
  });

  it('starts over if the artifact has changed or has no entity tag', async () => {
    let first = true;
    answer = (request, response) => {
      const tag = first ? '"old"' : ETAG;
      const breaks = first ? 50_000 : undefined;
      first = false;
      ranged(breaks, tag)(request, response);
    };
    const file = join(folder, 'anew.bin');
    await fetchFirmware(wanted({ file }));
    expect(readFileSync(file).equals(content)).toBe(true);
    rmSync(file);

    requested = [];
    let tries = 0;
    answer = (_, response) => {
      response.writeHead(200, { 'Content-Length': content.length });
      if (tries++ > 0) response.end(content);
      else response.write(content.subarray(0, 10_000), () => response.destroy());
    };
    expect((await fetchFirmware(wanted())).content?.equals(content)).toBe(true);
    expect(requested.map(({ range }) => range)).toEqual([undefined, undefined]);
  });

  it('starts over if the range is not satisfiable', async () => {
    const plan = [ranged(60_000), status(416), ranged()];
    answer = (...exchange) => plan.shift()?.(...exchange);
    expect((await fetchFirmware(wanted())).content?.equals(content)).toBe(true);
    expect(requested.map(({ range }) => range)).toEqual([undefined, 'bytes=60000-', undefined]);
  });

  it('is retried only after Retry-After, and can be verified without keeping it', async () => {
    const plan = [status(429, { 'Retry-After': '1' }), whole];
    answer = (...exchange) => plan.shift()?.(...exchange);
    const started = performance.now();
    expect(await fetchFirmware(wanted({ discard: true }))).toEqual({ bytes: content.length, content: null });
    expect(performance.now() - started).toBeGreaterThan(990);
  });

  it('is not retried at once if Retry-After exceeds the maximum timer delay', async () => {
    answer = status(503, { 'Retry-After': '3000000' });
    await expect(fetchFirmware(wanted({ timeoutMs: 500 }))).rejects.toThrow();
    expect(requested).toHaveLength(1);
  });

  it('is retried after server errors up to the limit', async () => {
    const plan = [status(503), status(500), whole];
    answer = (...exchange) => plan.shift()?.(...exchange);
    expect((await fetchFirmware(wanted())).bytes).toBe(content.length);
    requested = [];
    answer = status(503);
    await expect(fetchFirmware(wanted({ tries: 3 }))).rejects.toThrow('the server answered 503');
    expect(requested).toHaveLength(3);
  });

  it('is not retried after a client error', async () => {
    for (const code of [400, 403, 404, 410]) {
      requested = [];
      answer = status(code);
      await expect(fetchFirmware(wanted())).rejects.toThrow(`the server answered ${code}`);
      expect(requested).toHaveLength(1);
    }
  });

  it('is limited in size, with and without a Content-Length', async () => {
    answer = ranged();
    await expect(fetchFirmware(wanted({ maxBytes: 299_999 }))).rejects.toThrow('larger than 299999 bytes');
    answer = (_, response) => {
      response.write(content.subarray(0, 200_000));
      response.end(content.subarray(200_000));
    };
    await expect(fetchFirmware(wanted({ maxBytes: 299_999 }))).rejects.toThrow('larger than 299999 bytes');
    expect((await fetchFirmware(wanted({ maxBytes: 300_000 }))).bytes).toBe(300_000);
  });

  it('fails if no data arrives, or if the download takes too long', async () => {
    answer = (_, response) => {
      response.writeHead(200, { 'Content-Length': content.length });
      response.write('x');
    };
    await expect(fetchFirmware(wanted({ silenceMs: 20, tries: 1 }))).rejects.toThrow();
    await expect(fetchFirmware(wanted({ timeoutMs: 50 }))).rejects.toThrow(/timeout|aborted/i);
    await expect(fetchFirmware(wanted({ signal: AbortSignal.abort() }))).rejects.toThrow(/abort/i);
  });

  it('refuses a Content-Encoding and a different byte range than requested', async () => {
    answer = (_, response) => response.writeHead(200, { 'Content-Encoding': 'gzip' }).end('x');
    await expect(fetchFirmware(wanted())).rejects.toThrow('has a Content-Encoding');
    const plan = [ranged(60_000), status(206, { 'Content-Range': 'bytes 5-9/10', ETag: ETAG })];
    answer = (...exchange) => plan.shift()?.(...exchange);
    await expect(fetchFirmware(wanted())).rejects.toThrow('a different byte range');
  });
});

describe('a redirect', () => {
  it('is followed up to three times', async () => {
    answer = (request, response) => {
      const hop = Number(/\d$/.exec(request.url ?? '')?.[0] ?? 0);
      if (hop === 3) whole(request, response);
      else response.writeHead(302, { Location: `/fw${hop + 1}` }).end();
    };
    expect((await fetchFirmware(wanted())).bytes).toBe(content.length);
    answer = status(302, { Location: '/again' });
    await expect(fetchFirmware(wanted())).rejects.toThrow('too many redirects');
  });

  it('to a private address is refused', async () => {
    for (const Location of [`http://localhost:1/`, 'http://169.254.169.254/latest', 'http://[::1]:1/']) {
      answer = status(302, { Location });
      await expect(fetchFirmware(wanted())).rejects.toMatchObject({ name: 'AddressRefused' });
    }
    answer = status(302, { Location: 'file:///etc/passwd' });
    await expect(fetchFirmware(wanted())).rejects.toThrow('must use http or https');
  });

  it('from HTTPS to HTTP is refused', async () => {
    const read = (name: string) => readFileSync(new URL(`../../support/tls/${name}`, import.meta.url));
    const secure = createTlsServer({ cert: read('localhost.crt'), key: read('localhost.key') }, (request, response) => {
      if (request.url === '/down') response.writeHead(302, { Location: url }).end();
      else response.end(content);
    });
    await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve));
    const over = `https://localhost:${(secure.address() as AddressInfo).port}`;
    const trusting = { trustedHosts: ['localhost', '127.0.0.1'], ca: read('localhost.crt'), tries: 1 };
    answer = whole;
    expect((await fetchFirmware(wanted({ ...trusting, url: over }))).bytes).toBe(content.length);
    await expect(fetchFirmware(wanted({ ...trusting, url: `${over}/down` }))).rejects.toThrow(
      'the redirect target is not allowed',
    );
    await expect(fetchFirmware({ ...wanted({ trustedHosts: ['localhost'], tries: 1 }), url: over })).rejects.toThrow();
    secure.closeAllConnections();
    secure.close();
  });
});

describe('an address', () => {
  it('in a private network is allowed only for a trusted name', async () => {
    answer = whole;
    await expect(fetchFirmware(wanted({ trustedHosts: [] }))).rejects.toMatchObject({ name: 'AddressRefused' });
    const named = url.replace('127.0.0.1', 'localhost');
    await expect(fetchFirmware(wanted({ url: named }))).rejects.toMatchObject({ name: 'AddressRefused' });
    expect(requested).toHaveLength(0);
    expect((await fetchFirmware(wanted({ url: named, trustedHosts: ['localhost'] }))).bytes).toBe(content.length);
  });

  it('with credentials, another protocol or a malformed checksum is refused before any request', async () => {
    const at = (text: string) => fetchFirmware(wanted({ url: text }));
    await expect(at(url.replace('//', '//me:secret@'))).rejects.toThrow('credentials');
    await expect(at('ftp://127.0.0.1/fw')).rejects.toThrow('must use http or https');
    await expect(at('nothing')).rejects.toThrow('must use http or https');
    await expect(fetchFirmware(wanted({ checksum: 'abc' }))).rejects.toThrow('must be a SHA-256');
    expect(requested).toHaveLength(0);
  });
});
