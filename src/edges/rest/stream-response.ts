import type { ServerResponse } from 'node:http';
import type { StreamedBody } from '../../operations/operation.ts';
import { standardHeaders } from '../shared/http.ts';
import { API_POLICY, type HttpExchange } from '../shared/http-exchange.ts';
import { drained } from './file-response.ts';

/** A client that reads nothing for this long is disconnected. */
const IDLE_TIMEOUT_MS = 60_000;

/**
 * Sends a body of unknown length, the next chunk only when the client has taken the previous ones. Throws an error of the
 * first chunk, before anything is sent; after a later one the connection is closed, so that the client sees an incomplete
 * response (RFC 9112 §8).
 */
export async function sendStream(exchange: HttpExchange, body: StreamedBody): Promise<void> {
  const { response, method } = exchange;
  const chunks = body.chunks[Symbol.asyncIterator]();
  let next = await chunks.next();
  writeHead(exchange, body);
  if (method === 'HEAD') {
    await chunks.return?.();
    response.end();
    return;
  }
  try {
    for (; next.done !== true && !response.destroyed; next = await chunks.next()) {
      if (!response.write(next.value)) await drained(response);
    }
    response.end();
  } catch (error) {
    response.destroy();
    throw error;
  } finally {
    await chunks.return?.();
  }
}

function writeHead(exchange: HttpExchange, { type, name }: StreamedBody): void {
  const response: ServerResponse = exchange.response;
  if (exchange.isLast()) response.shouldKeepAlive = false;
  response.setTimeout(IDLE_TIMEOUT_MS, () => response.destroy());
  response.writeHead(200, [
    ...standardHeaders(exchange.requestId),
    ...exchange.rateLimitHeaders,
    ...['Content-Security-Policy', API_POLICY, 'Cache-Control', 'no-store', 'Content-Type', type],
    ...['Content-Disposition', `attachment; filename="${name}"`],
  ]);
}
