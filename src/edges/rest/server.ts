import type { Server, ServerOptions } from 'node:http';
import type { Socket } from 'node:net';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { problemOf } from '../shared/http.ts';
import { endConnection, formatProblemResponse, REQUEST_TIMEOUT_TITLE } from '../shared/upgrade.ts';

/** How long and how large a request may be before it is a request; for HTTP and HTTPS alike. */
export const serverLimits = {
  headersTimeout: 10_000,
  // An upload may take its time; any other body has less of it (body.ts).
  requestTimeout: 15 * 60_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxHeaderSize: 16 * 1024,
  // Who offers another protocol, as many clients offer HTTP/2, gets an ordinary answer.
  shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === 'websocket',
} satisfies ServerOptions;

/** Gives what is no HTTP, or never becomes a whole request, the same answers as everything else. */
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
  // An expectation that nobody knows is no reason to refuse.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
}

const statusDetails = {
  400: 'This is no valid HTTP request.',
  408: REQUEST_TIMEOUT_TITLE,
  431: 'The headers are too large.',
} as const;

function statusOf(code: string | undefined): keyof typeof statusDetails {
  if (code === 'HPE_HEADER_OVERFLOW') return 431;
  return code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
}
