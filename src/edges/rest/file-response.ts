import type { ServerResponse } from 'node:http';
import type { Request } from 'express';
import type { StoredFile } from '../../operations/operation.ts';
import { standardHeaders } from '../shared/http.ts';
import { API_POLICY, type HttpExchange, send } from '../shared/http-exchange.ts';
import { selectionOf } from './file-selection.ts';

/** A client that reads nothing for this long is disconnected; it can resume with a range request. */
const IDLE_TIMEOUT_MS = 60_000;
/** Headers that describe the file, which an answer without it must not have. */
const FILE_HEADERS = ['Content-Type', 'Content-Disposition', 'Content-Length', 'ETag', 'Cache-Control'];

/**
 * Answers a GET or HEAD request that Express routed with a file, or with what its conditions and its range select. Throws
 * the error of a file that cannot be read before its first byte was sent; later the connection is closed.
 */
export async function sendFile(exchange: HttpExchange, type: string | undefined, file: StoredFile): Promise<void> {
  const { response, method } = exchange;
  const { content, etag } = file;
  setFileHeaders(exchange, type, file);
  const selection = selectionOf(exchange.request as Request, { etag, bytes: content.bytes });
  switch (selection.status) {
    case 304:
      response.removeHeader('Content-Type');
      response.statusCode = 304;
      response.end();
      return;
    case 416:
      response.setHeader('Content-Range', `bytes */${content.bytes}`);
      sendWithoutFile(exchange, 416);
      return;
    case 412:
      sendWithoutFile(exchange, 412);
      return;
  }
  const { status, start, end } = selection;
  response.statusCode = status;
  if (status === 206) response.setHeader('Content-Range', `bytes ${start}-${end}/${content.bytes}`);
  response.setHeader('Content-Length', end - start + 1);
  if (method === 'HEAD') {
    response.end();
    return;
  }
  try {
    await sendBytes(response, content.read({ start, end }), end - start + 1);
  } catch (error) {
    if (response.headersSent) response.destroy();
    else removeHeaders(response, [...FILE_HEADERS, 'Content-Range']);
    throw error;
  }
}

function setFileHeaders(exchange: HttpExchange, type: string | undefined, file: StoredFile): void {
  const { response } = exchange;
  const headers = standardHeaders(exchange.requestId);
  headers.push(...exchange.rateLimitHeaders);
  for (let n = 0; n < headers.length; n += 2) response.setHeader(headers[n] as string, headers[n + 1] as string);
  response.setHeader('Content-Security-Policy', API_POLICY);
  response.setHeader('Cache-Control', 'private, no-transform, max-age=3600');
  response.setHeader('Content-Type', type ?? 'application/octet-stream');
  response.setHeader('Content-Disposition', `attachment; filename="${file.name}"`);
  response.setHeader('Accept-Ranges', 'bytes');
  // Files are immutable, so they have no Last-Modified.
  response.setHeader('ETag', file.etag);
  if (exchange.isLast()) response.shouldKeepAlive = false;
  response.setTimeout(IDLE_TIMEOUT_MS, () => response.destroy());
}

function sendWithoutFile(exchange: HttpExchange, status: 412 | 416): void {
  removeHeaders(exchange.response, FILE_HEADERS);
  send(exchange, status, null);
}

function removeHeaders(response: ServerResponse, names: readonly string[]): void {
  for (const name of names) response.removeHeader(name);
}

/** Sends the chunks, the next one only when the client has taken the previous ones. Ends early if the client leaves. */
async function sendBytes(response: ServerResponse, chunks: AsyncIterable<Uint8Array>, length: number): Promise<void> {
  let left = length;
  for await (const chunk of chunks) {
    if (response.destroyed) return;
    left -= chunk.length;
    if (!response.write(chunk)) await drained(response);
  }
  if (left > 0) throw new Error(`the file ended ${left} bytes early`);
  response.end();
}

/** Resolves when the response can be written again, or was closed. */
export const drained = (response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const settle = () => {
      response.off('drain', settle).off('close', settle);
      resolve();
    };
    response.once('drain', settle).once('close', settle);
  });
