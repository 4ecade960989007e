import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { problemOf, refusalHeaders, requestIdOf, standardHeaders } from './http.ts';
import type { Charge } from './rate-limiter.ts';

/** One request and its answer. */
export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  method: string;
  requestId: Uuid;
  /** As it was sent, without the query. */
  path: string;
  /** Without its `?`; may hold a credential. */
  query: string;
  /** Asked when the answer is written: nothing more is to come on this connection. */
  isLast(): boolean;
  /** What this request was charged, as headers of whatever is answered. */
  rateLimitHeaders: readonly string[];
}

export function exchangeOf(
  request: IncomingMessage,
  response: ServerResponse,
  { newId, isLast = () => false }: { newId(): Uuid; isLast?(): boolean },
): Exchange {
  const { method = 'GET' } = request;
  // A proxy may send the whole URL (RFC 9112 §3.2.2).
  const url = (request.url ?? '/').replace(/^https?:\/\/[^/?]*(?=\/)/i, '');
  const question = url.indexOf('?');
  return {
    request,
    response,
    method,
    requestId: requestIdOf(request.headers, newId),
    isLast,
    rateLimitHeaders: [],
    path: question === -1 ? url : url.slice(0, question),
    query: question === -1 ? '' : url.slice(question + 1),
  };
}

export const API_POLICY = "default-src 'none'; frame-ancestors 'none'";

export interface Content {
  type: string;
  body: string | Buffer;
  /** Content-Security-Policy, where a page needs more than nothing. */
  policy?: string;
  /** Cache-Control; `no-store` for all that is not a file. */
  cache?: string;
  /** Of a page, where it is not 200. */
  status?: number;
  /** More of a page's headers: names and values in turn. */
  headers?: readonly string[];
}

export function send(exchange: Exchange, status: number, content: Content | null, more: string[] = []): void {
  const { response, requestId } = exchange;
  if (response.headersSent || response.destroyed) return;
  const headers = standardHeaders(requestId);
  headers.push('Content-Security-Policy', content?.policy ?? API_POLICY, 'Cache-Control', content?.cache ?? 'no-store');
  const length = content === null ? 0 : Buffer.byteLength(content.body);
  if (content !== null) headers.push('Content-Type', content.type, 'Content-Length', `${length}`);
  if (exchange.rateLimitHeaders.length > 0) headers.push(...exchange.rateLimitHeaders);
  if (more.length > 0) headers.push(...more);
  if (exchange.isLast()) response.shouldKeepAlive = false;
  response.writeHead(status, headers);
  // A text of as many bytes as characters is ASCII, which Node writes faster as what it is.
  if (typeof content?.body === 'string' && content.body.length === length) response.end(content.body, 'latin1');
  else response.end(content?.body);
}

export const sendJson = (exchange: Exchange, status: number, body: unknown, more?: string[]): void =>
  send(exchange, status, { type: 'application/json', body: JSON.stringify(body) }, more);

export function sendRefusal(exchange: Exchange, refusal: Refusal, more: string[] = [], challenge?: string): void {
  const problem = problemOf(refusal, exchange.path, exchange.requestId);
  const { authorization, 'x-api-key': key } = exchange.request.headers;
  const headers = refusalHeaders(refusal, authorization !== undefined || key !== undefined, challenge);
  const content = { type: 'application/problem+json', body: JSON.stringify(problem) };
  send(exchange, problem.status, content, [...headers, ...more]);
}

/** False where the request goes no further: then it is answered. */
export function applyCharge(exchange: Exchange, charge: Charge): boolean {
  exchange.rateLimitHeaders = charge.headers;
  if (charge.refusal !== null) sendRefusal(exchange, charge.refusal);
  return charge.refusal === null;
}
