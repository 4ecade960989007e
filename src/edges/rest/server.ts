import type { Server, ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { hasSeveralHosts } from '../shared/host-header.ts';
import { problemOf } from '../shared/problem-details.ts';
import { endConnection, formatProblemResponse, REQUEST_TIMEOUT_TITLE } from '../shared/upgrade.ts';

/** Timeouts and size limits of the HTTP and HTTPS servers. */
export const serverLimits = {
  headersTimeout: 10_000,
  // Long enough for uploads; other bodies have a shorter timeout (body.ts).
  requestTimeout: 15 * 60_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16 * 1024,
  // Other upgrade offers, such as HTTP/2, are ignored and get a normal response.
  // A request with several hosts is refused as a request.
  shouldUpgradeCallback: (request) =>
    request.headers.upgrade?.toLowerCase() === 'websocket' && !hasSeveralHosts(request),
} satisfies ServerOptions;

/** Answers invalid and incomplete HTTP requests with problem documents, like every other error. */
export function handleProtocolErrors(server: Server, newId: () => Uuid): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    const status = statusOf(error.code);
    const refusal: Refusal = { code: 'VALIDATION_FAILED', detail: statusDetails[status] };
    endConnection(
      socket,
      formatProblemResponse({ ...problemOf(refusal, '', newId()), title: statusDetails[status], status }),
    );
  });
  // An unknown `Expect` header is ignored.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
}

const statusDetails = {
  400: 'The request is not valid HTTP.',
  408: REQUEST_TIMEOUT_TITLE,
  431: 'The headers are too large.',
} as const;

function statusOf(code: string | undefined): keyof typeof statusDetails {
  if (code === 'HPE_HEADER_OVERFLOW') return 431;
  return code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
}
