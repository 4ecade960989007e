import type { Response } from 'express';
import type { StoredFile } from '../../operations/operation.ts';
import { standardHeaders } from '../shared/http.ts';
import { API_POLICY, type HttpExchange, send, sendRefusal } from '../shared/http-exchange.ts';

/** A client that reads nothing for this long is disconnected; it can resume with a range request. */
const IDLE_TIMEOUT_MS = 60_000;

/** Streams a file, with conditional and range requests (RFC 9110 §13, §14) handled by Express, which routed the request. */
export function sendFile(exchange: HttpExchange, type: string | undefined, file: StoredFile): Promise<void> {
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
  // Files are immutable, so they have no Last-Modified; DATA_DIR may be below a dot folder.
  const options = { etag: false, lastModified: false, cacheControl: false, dotfiles: 'allow' } as const;
  return new Promise((resolve) => {
    response.sendFile(file.path, options, (error?: NodeJS.ErrnoException & { status?: number }) => {
      if (error) sendFileError(exchange, error.status);
      resolve();
    });
  });
}

function sendFileError(exchange: HttpExchange, status: number | undefined): void {
  const { response } = exchange;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  for (const name of ['Content-Type', 'Content-Disposition', 'ETag', 'Cache-Control']) response.removeHeader(name);
  // On 416 Content-Range states the actual length.
  if (status === 412 || status === 416) send(exchange, status, null);
  else sendRefusal(exchange, { code: 'GONE', detail: 'The file no longer exists.' });
}
