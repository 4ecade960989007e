import type { ServerResponse } from 'node:http';
import type { Milliseconds } from '../../domain/values.ts';
import type { StreamedBody } from '../../operations/operation.ts';
import { standardHeaders } from '../shared/http.ts';
import { API_POLICY, type HttpExchange, sendRefusal } from '../shared/http-exchange.ts';
import { drained } from './file-response.ts';

/** A client that reads nothing for this long is disconnected. */
const IDLE_TIMEOUT_MS = 60_000;
/** And one that reads less on average: a body may be hundreds of megabytes, and few are sent at the same time. */
const MIN_BYTES_PER_MS = (64 * 1024) / 1_000;

/**
 * Sends a body of unknown length, the next chunk only when the client has taken the previous ones; the body is aborted when
 * the client closes the connection. Throws an error of the first chunk, before anything is sent; after a later one the
 * connection is closed, so that the client sees an incomplete response (RFC 9112 §8).
 */
export async function sendStream(exchange: HttpExchange, body: StreamedBody): Promise<void> {
  const { response, method } = exchange;
  if (response.destroyed) return;
  const gone = new AbortController();
  const abort = () => gone.abort();
  response.once('close', abort);
  const opened = body.open(gone.signal);
  if (!opened.ok) {
    response.off('close', abort);
    sendRefusal(exchange, opened.refusal);
    return;
  }
  const chunks = opened.value[Symbol.asyncIterator]();
  try {
    let next = await chunks.next();
    if (response.destroyed) return;
    writeHead(exchange, body);
    if (method !== 'HEAD') {
      response.flushHeaders();
      let allowedMs = IDLE_TIMEOUT_MS;
      for (; next.done !== true && !gone.signal.aborted; next = await chunks.next()) {
        if (next.value === '') continue;
        allowedMs = Math.min(IDLE_TIMEOUT_MS, allowedMs + Buffer.byteLength(next.value) / MIN_BYTES_PER_MS);
        if (!response.write(next.value)) allowedMs -= await taken(response, allowedMs);
      }
    }
    response.setTimeout(IDLE_TIMEOUT_MS, () => response.destroy());
    response.end();
  } catch (error) {
    if (response.headersSent) response.destroy();
    throw error;
  } finally {
    response.off('close', abort);
    await chunks.return?.();
  }
}

/** Resolves when the client has taken what was written, to how long it took, or is disconnected after `allowedMs`. */
async function taken(response: ServerResponse, allowedMs: Milliseconds): Promise<Milliseconds> {
  const began = performance.now();
  const timer = setTimeout(() => response.destroy(), allowedMs);
  await drained(response);
  clearTimeout(timer);
  return performance.now() - began;
}

function writeHead(exchange: HttpExchange, { type, name }: StreamedBody): void {
  const response: ServerResponse = exchange.response;
  if (exchange.isLast()) response.shouldKeepAlive = false;
  response.writeHead(200, [
    ...standardHeaders(exchange.requestId),
    ...exchange.rateLimitHeaders,
    ...['Content-Security-Policy', API_POLICY, 'Cache-Control', 'no-store', 'Content-Type', type],
    ...['Content-Disposition', `attachment; filename="${name}"`],
  ]);
}
