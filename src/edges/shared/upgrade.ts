import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ServerOptions, WebSocketServer } from 'ws';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { type Problem, problemOf, refusalHeaders, requestIdOf, standardHeaders } from './http.ts';

// What is answered on a socket that has no response object: the handshakes of WebSockets, and what never was a request.

/** The whole text of an answer that ends its connection. `headers` are names and values in turn. */
export function formatProblemResponse(problem: Problem, headers: readonly string[] = []): string {
  const body = JSON.stringify(problem);
  const reason = STATUS_CODES[problem.status] ?? 'Refused';
  const lines = linesOf([
    ...standardHeaders(problem.request_id),
    ...headers,
    ...['Content-Type', 'application/problem+json', 'Content-Length', `${Buffer.byteLength(body)}`],
    ...['Connection', 'close'],
  ]);
  return `HTTP/1.1 ${problem.status} ${reason}\r\n${lines.join('\r\n')}\r\n\r\n${body}`;
}

/** How long a peer may take to hang up. */
const LINGER_MS = 2_000;

/** Says the last word on a connection. Who keeps it open after that is hung up on: nothing else ends such a one. */
export function endConnection(socket: Duplex, text: string): void {
  socket.on('error', () => {});
  socket.end(text);
  const cut = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(cut));
}

export const REQUEST_TIMEOUT_TITLE = 'The request did not arrive in time.';

/** For a body that does not come: the request is answered like one whose headers do not. */
export function sendRequestTimeout(request: IncomingMessage, newId: () => Uuid): void {
  const refusal: Refusal = { code: 'VALIDATION_FAILED', detail: REQUEST_TIMEOUT_TITLE };
  endConnection(
    request.socket,
    formatProblemResponse({ ...problemOf(refusal, '', newId()), title: REQUEST_TIMEOUT_TITLE, status: 408 }),
  );
}

/** The id of an upgrade request, the same for everybody who asks for it later. */
export function ensureRequestId(request: IncomingMessage, newId: () => Uuid): Uuid {
  const requestId = requestIdOf(request.headers, newId);
  request.headers['x-request-id'] = requestId;
  return requestId;
}

/** Refuses an upgrade in the words of every other refusal. */
export function refuseUpgrade(
  request: IncomingMessage,
  socket: Duplex,
  refusal: Refusal,
  { newId, headers = [] }: { newId(): Uuid; headers?: readonly string[] },
): void {
  const [path = '/'] = (request.url ?? '/').split('?', 1);
  const problem = problemOf(refusal, path, ensureRequestId(request, newId));
  endConnection(socket, formatProblemResponse(problem, [...refusalHeaders(refusal, false), ...headers]));
}

/** A WebSocket server for upgrades that is answered like the rest: its handshakes carry the headers of every answer. */
export function makeWebSocketServer(options: ServerOptions, newId: () => Uuid): WebSocketServer {
  const server = new WebSocketServer({ ...options, noServer: true, clientTracking: false, perMessageDeflate: false });
  server.on('headers', (headers, request) => {
    headers.push(...linesOf(standardHeaders(ensureRequestId(request, newId))));
  });
  server.on('wsClientError', (error, socket, request) => {
    const refusal: Refusal = { code: 'VALIDATION_FAILED', detail: `This is no WebSocket handshake: ${error.message}.` };
    refuseUpgrade(request, socket, refusal, { newId, headers: ['Sec-WebSocket-Version', '13'] });
  });
  return server;
}

function linesOf(headers: readonly string[]): string[] {
  const lines: string[] = [];
  for (let n = 0; n < headers.length; n += 2) lines.push(`${headers[n]}: ${headers[n + 1]}`);
  return lines;
}
