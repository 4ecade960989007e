import express, { type Request, type Response } from 'express';
import type { StoredFile } from '../../operations/operation.ts';
import { API_POLICY, type Exchange, send, sendRefusal } from '../shared/exchange.ts';
import { standardHeaders } from '../shared/http.ts';

/** Without a byte taken for so long the connection is cut: whoever reads goes on with a range. */
const IDLE_TIMEOUT_MS = 60_000;

/** It has a way with files, and takes part in no other answer: its way through a request costs more than ours. */
const app = express();
app.disable('x-powered-by');
app.set('etag', false);

/** Streams a file; answers ranges and conditions (RFC 9110 §13, §14), which Express knows how to. */
export function sendFile(exchange: Exchange, type: string | undefined, file: StoredFile): Promise<void> {
  const response = exchange.response as Response;
  const headers = standardHeaders(exchange.requestId);
  headers.push(...exchange.rateLimitHeaders);
  for (let n = 0; n < headers.length; n += 2) response.setHeader(headers[n] as string, headers[n + 1] as string);
  response.setHeader('Content-Security-Policy', API_POLICY);
  response.setHeader('Cache-Control', 'private, no-transform, max-age=3600');
  response.setHeader('Content-Type', type ?? 'application/octet-stream');
  response.setHeader('Content-Disposition', `attachment; filename="${file.name}"`);
  response.setHeader('ETag', file.etag);
  if (exchange.isLast()) response.shouldKeepAlive = false;
  response.setTimeout(IDLE_TIMEOUT_MS, () => response.destroy());
  // It may be changed by nobody, so there is no time of its change to tell; and it may lie in a hidden folder.
  const options = { etag: false, lastModified: false, cacheControl: false, dotfiles: 'allow' } as const;
  return new Promise((resolve) => {
    const stream = () =>
      response.sendFile(file.path, options, (error?: NodeJS.ErrnoException & { status?: number }) => {
        if (error) sendFileError(exchange, error.status);
        resolve();
      });
    app(exchange.request as Request, response, stream);
  });
}

function sendFileError(exchange: Exchange, status: number | undefined): void {
  const { response } = exchange;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  for (const name of ['Content-Type', 'Content-Disposition', 'ETag', 'Cache-Control']) response.removeHeader(name);
  // The length that there is stands in Content-Range.
  if (status === 412 || status === 416) send(exchange, status, null);
  else sendRefusal(exchange, { code: 'GONE', detail: 'There is nothing here any more.' });
}
