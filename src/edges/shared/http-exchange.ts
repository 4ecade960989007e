import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { requestIdOf, standardHeaders } from './http.ts';
import { problemOf, refusalHeaders } from './problem-details.ts';
import type { Charge } from './rate-limiter.ts';

/** One HTTP request and its response. */
export interface HttpExchange {
  request: IncomingMessage;
  response: ServerResponse;
  method: string;
  requestId: Uuid;
  /** The path as sent, without the query. */
  path: string;
  /** Without the `?`; may contain a credential. */
  query: string;
  /** Evaluated when the response is written: true closes the connection after it. */
  isLast(): boolean;
  /** Rate-limit headers of the response. */
  rateLimitHeaders: readonly string[];
}

/** `locals` of an Express response: the exchange exists before Express receives the request. */
export interface HttpExchangeLocals {
  exchange: HttpExchange;
}

export function httpExchangeOf(
  request: IncomingMessage,
  response: ServerResponse,
  { newId, isLast = () => false }: { newId(): Uuid; isLast?(): boolean },
): HttpExchange {
  const { method = 'GET' } = request;
  // A proxy may send an absolute URL (RFC 9112 §3.2.2).
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
  /** Content-Security-Policy of a page; by default nothing may be loaded. */
  policy?: string;
  /** Cache-Control; `no-store` for everything that is not a file. */
  cache?: string;
  /** Status of a page; 200 by default. */
  status?: number;
  /** Further headers of a page, names and values alternating. */
  headers?: readonly string[];
}

export function send(
  exchange: HttpExchange,
  status: number,
  content: Content | null,
  extraHeaders: string[] = [],
): void {
  const { response, requestId } = exchange;
  if (response.headersSent || response.destroyed) return;
  const headers = standardHeaders(requestId);
  headers.push('Content-Security-Policy', content?.policy ?? API_POLICY, 'Cache-Control', content?.cache ?? 'no-store');
  const length = content === null ? 0 : Buffer.byteLength(content.body);
  if (content !== null) headers.push('Content-Type', content.type, 'Content-Length', `${length}`);
  if (exchange.rateLimitHeaders.length > 0) headers.push(...exchange.rateLimitHeaders);
  if (extraHeaders.length > 0) headers.push(...extraHeaders);
  if (exchange.isLast()) response.shouldKeepAlive = false;
  response.writeHead(status, headers);
  // As many bytes as characters: the text is ASCII, which Node writes faster as Latin-1.
  if (typeof content?.body === 'string' && content.body.length === length) response.end(content.body, 'latin1');
  else response.end(content?.body);
}

export const sendJson = (exchange: HttpExchange, status: number, body: unknown, extraHeaders?: string[]): void =>
  send(exchange, status, { type: 'application/json', body: JSON.stringify(body) }, extraHeaders);

export function sendRefusal(
  exchange: HttpExchange,
  refusal: Refusal,
  extraHeaders: string[] = [],
  challenge?: string,
): void {
  const problem = problemOf(refusal, exchange.path, exchange.requestId);
  const { authorization, 'x-api-key': key } = exchange.request.headers;
  const headers = refusalHeaders(refusal, authorization !== undefined || key !== undefined, challenge);
  const content = { type: 'application/problem+json', body: JSON.stringify(problem) };
  send(exchange, problem.status, content, [...headers, ...extraHeaders]);
}

/** Adds the charge's headers. False if the charge refused the request, which is then answered. */
export function applyCharge(exchange: HttpExchange, charge: Charge): boolean {
  exchange.rateLimitHeaders = charge.headers;
  if (charge.refusal !== null) sendRefusal(exchange, charge.refusal);
  return charge.refusal === null;
}
