import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ServerOptions, WebSocketServer } from 'ws';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { requestIdOf, standardHeaders } from './http.ts';
import { type ProblemDetails, problemOf, refusalHeaders } from './problem-details.ts';

// Responses on sockets without a response object: WebSocket handshakes, and input that is not a valid request.

/** The complete text of a problem response that closes its connection. `headers` are names and values alternating. */
export function formatProblemResponse(problem: ProblemDetails, headers: readonly string[] = []): string {
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

/** How long a peer may take to close its side. */
const LINGER_MS = 2_000;

/**
 * Writes the last response and ends the connection; destroys it if the peer keeps it open, which has no other timeout.
 */
export function endConnection(socket: Duplex, text: string): void {
  socket.on('error', () => {});
  socket.end(text);
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
}

export const REQUEST_TIMEOUT_TITLE = 'The request did not arrive in time.';

/** Answers a request whose body does not arrive, in the same way as one whose headers do not arrive. */
export function sendRequestTimeout(request: IncomingMessage, newId: () => Uuid): void {
  const refusal: Refusal = { code: 'VALIDATION_FAILED', detail: REQUEST_TIMEOUT_TITLE };
  endConnection(
    request.socket,
    formatProblemResponse({ ...problemOf(refusal, '', newId()), title: REQUEST_TIMEOUT_TITLE, status: 408 }),
  );
}

/** The id of an upgrade request; stored in its headers, so that later calls return the same. */
export function ensureRequestId(request: IncomingMessage, newId: () => Uuid): Uuid {
  const requestId = requestIdOf(request.headers, newId);
  request.headers['x-request-id'] = requestId;
  return requestId;
}

/** Refuses an upgrade with the same problem response as any other request. */
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

/** An invalid handshake (RFC 6455 §4.2.1) in own words, with the header that the library's error names. */
function handshakeRefusal({ message }: Error): Refusal {
  const [header] = /\b(?:Upgrade|Sec-WebSocket-\w+)\b/.exec(message) ?? [];
  const detail =
    header === undefined
      ? 'The WebSocket handshake is not valid: use GET.'
      : `The WebSocket handshake is not valid: its header ${header} is missing or not acceptable.`;
  return { code: 'VALIDATION_FAILED', detail };
}

/** A WebSocket server for upgrades whose handshake responses carry the standard headers. */
export function makeWebSocketServer(options: ServerOptions, newId: () => Uuid): WebSocketServer {
  const server = new WebSocketServer({ ...options, noServer: true, clientTracking: false, perMessageDeflate: false });
  server.on('headers', (headers, request) => {
    headers.push(...linesOf(standardHeaders(ensureRequestId(request, newId))));
  });
  server.on('wsClientError', (error, socket, request) => {
    refuseUpgrade(request, socket, handshakeRefusal(error), { newId, headers: ['Sec-WebSocket-Version', '13'] });
  });
  return server;
}

function linesOf(headers: readonly string[]): string[] {
  const lines: string[] = [];
  for (let n = 0; n < headers.length; n += 2) lines.push(`${headers[n]}: ${headers[n + 1]}`);
  return lines;
}
