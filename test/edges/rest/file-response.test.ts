import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import express from 'express';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sendFile } from '../../../src/edges/rest/file-response.ts';
import { httpExchangeOf } from '../../../src/edges/shared/http-exchange.ts';
import { artifactFolder } from '../../../src/store/artifact-folder.ts';
import type { StoredArtifact } from '../../../src/store/contract/artifact-files.ts';
import { newId } from '../../support/actor-commits.ts';

const bytes = Buffer.from('0123456789abcdef');
const etag = '"0f1e2d"';
const folder = mkdtempSync(join(tmpdir(), 'twinkeep-files-'));
writeFileSync(join(folder, 'one'), bytes);

let content: StoredArtifact;
/** Set by a request for `/ours` when it is answered. */
let outcome: Promise<void>;
const app = express();
app.disable('etag');
app.get('/ours', (sent, response) => {
  const exchange = httpExchangeOf(sent, response, { newId });
  outcome = sendFile(exchange, 'application/octet-stream', { content, name: 'one.bin', etag });
  outcome.catch(() => {
    if (!response.headersSent) response.status(503).end();
  });
});
/** The same file, sent by Express. */
app.get('/express', (_sent, response, next) => {
  response.setHeader('ETag', etag);
  response.setHeader('Content-Type', 'application/octet-stream');
  const options = { etag: false, lastModified: false, cacheControl: false };
  response.sendFile(join(folder, 'one'), options, (error) => {
    const { status = 500 } = (error ?? {}) as { status?: number };
    if (error && (status === 412 || status === 416)) response.status(status).end();
    else if (error) next(error);
  });
});
const server = app.listen(0, '127.0.0.1');
const port = () => (server.address() as AddressInfo).port;

beforeAll(async () => {
  if (!server.listening) await once(server, 'listening');
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
  rmSync(folder, { recursive: true });
});

async function ask(path: string, headers: Record<string, string> = {}, method = 'GET') {
  const sent = request({ host: '127.0.0.1', port: port(), path, method, headers, agent: false }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode, headers: response.headers, body: await text(response) };
}

const conditions: Record<string, string>[] = [
  ...[etag, `W/${etag}`, '"another"', `"another", ${etag}`, '*', 'nonsense', ''].flatMap((tag) => [
    { 'if-match': tag },
    { 'if-none-match': tag },
    { 'if-none-match': tag, 'cache-control': 'max-age=0' },
    { 'if-none-match': tag, 'cache-control': 'no-cache' },
  ]),
  { 'if-match': etag, 'if-none-match': etag },
  { 'if-match': '"another"', 'if-none-match': etag },
  ...['Thu, 26 Nov 2026 08:00:00 GMT', 'no date'].flatMap((date) => [
    { 'if-unmodified-since': date },
    { 'if-modified-since': date },
    { 'if-modified-since': date, 'if-none-match': etag },
    { 'if-unmodified-since': date, 'if-match': etag },
  ]),
];
const ranges: Record<string, string>[] = [
  ...['0-', '0-0', '3-7', '15-', '15-15', '15-16', '16-', '9-3', '-1', '-16', '-17', '-0', '-', 'a-b', '1', ''],
  ...['0-3,4-7', '4-7,0-3', '0-3,8-9', '0-9,5-12', '0-3,99-', '99-,98-', '0-3,x', ' 2 - 4 ', '0-99999999999999999999'],
].map((range) => ({ range: `bytes=${range}` }));
const other: Record<string, string>[] = [
  {},
  { range: 'items=0-3' },
  { range: 'bytes' },
  { range: '' },
  ...[etag, `W/${etag}`, '"another"', 'Thu, 26 Nov 2026 08:00:00 GMT', 'nonsense', ''].flatMap((validator) => [
    { range: 'bytes=4-', 'if-range': validator },
    { range: 'bytes=99-', 'if-range': validator },
    { 'if-range': validator },
  ]),
  { range: 'bytes=4-', 'if-none-match': etag },
  { range: 'bytes=4-', 'if-match': '"another"' },
  { range: 'bytes=99-', 'if-none-match': '"another"' },
];

describe('a file', () => {
  const compared = (headers: IncomingHttpHeaders) =>
    Object.fromEntries(
      [
        ...(['accept-ranges', 'content-length', 'content-range', 'content-type', 'etag', 'last-modified'] as const),
        'transfer-encoding' as const,
      ].map((name) => [name, headers[name]]),
    );

  it.each(['GET', 'HEAD'])('is answered as Express answers, for every condition and range (%s)', async (method) => {
    content = (await artifactFolder(folder).open('one')) as StoredArtifact;
    const statuses = new Set<number | undefined>();
    for (const headers of [...conditions, ...ranges, ...other]) {
      const [ours, theirs] = [await ask('/ours', headers, method), await ask('/express', headers, method)];
      const about = JSON.stringify(headers);
      statuses.add(ours.status);
      expect([ours.status, ours.body], about).toEqual([theirs.status, theirs.body]);
      if (ours.status === 412 || ours.status === 416) {
        expect(ours.headers['content-range'], about).toBe(theirs.headers['content-range']);
        for (const name of ['content-type', 'content-disposition', 'etag'])
          expect(ours.headers).not.toHaveProperty(name);
      } else expect(compared(ours.headers), about).toEqual(compared(theirs.headers));
    }
    expect([...statuses].sort()).toEqual([200, 206, 304, 412, 416]);
  });

  it('that cannot be read is answered without its headers', async () => {
    // biome-ignore lint/correctness/useYield: it fails before the first chunk
    async function* failing(): AsyncGenerator<Uint8Array> {
      throw new Error('unreadable');
    }
    content = { bytes: 16, read: failing };
    const { status, headers } = await ask('/ours', { range: 'bytes=4-' });
    await expect(outcome).rejects.toThrow('unreadable');
    expect(status).toBe(503);
    for (const name of ['etag', 'content-range', 'content-disposition', 'content-type']) {
      expect(headers).not.toHaveProperty(name);
    }
  });

  it.each([
    ['fails', async (): Promise<Uint8Array> => Promise.reject(new Error('failed later'))],
    ['ends early', async () => Buffer.from('short')],
  ])('that %s after its first bytes closes the connection', async (_, second) => {
    async function* partial() {
      yield bytes.subarray(0, 4);
      await firstReceived;
      yield await second();
    }
    let onFirst = () => {};
    const firstReceived = new Promise<void>((resolve) => {
      onFirst = resolve;
    });
    content = { bytes: 16, read: partial };
    const sent = request({ host: '127.0.0.1', port: port(), path: '/ours', agent: false }).end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    expect(`${response.headers['content-length']}`).toBe('16');
    onFirst();
    await expect(text(response)).rejects.toMatchObject({ code: 'ECONNRESET' });
    await expect(outcome).rejects.toThrow(/failed later|ended 7 bytes early/);
  });
});

describe('a slow client', () => {
  const MIB = Buffer.alloc(1024 * 1024);
  /** A file that counts how many chunks are requested, and whether its reader ended. */
  function endless() {
    const state = { chunks: 0, ended: false };
    async function* read() {
      try {
        for (;;) {
          state.chunks += 1;
          yield MIB;
        }
      } finally {
        state.ended = true;
      }
    }
    content = { bytes: 2 ** 40, read };
    return state;
  }
  const pausedRequest = async (): Promise<{ socket: Socket; response: ServerResponse }> => {
    const arrived = once(server, 'request') as Promise<[IncomingMessage, ServerResponse]>;
    const socket = connect(port(), '127.0.0.1').on('error', () => {});
    socket.pause().write('GET /ours HTTP/1.1\r\nHost: x\r\n\r\n');
    const [, response] = await arrived;
    return { socket, response };
  };

  it('is sent no more than fits into its buffers, and the reader ends when it leaves', async () => {
    const state = endless();
    const { socket, response } = await pausedRequest();
    await expect.poll(() => response.writableNeedDrain).toBe(true);
    const { chunks } = state;
    // The response holds one chunk that the operating system has not taken completely.
    expect(response.writableLength).toBeLessThan(2 * MIB.length);
    socket.destroy();
    await outcome;
    expect(state.ended).toBe(true);
    // Between the two the operating system may have taken some more.
    expect(state.chunks).toBeLessThan(chunks + 32);
  });
});
