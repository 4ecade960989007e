import { problemOf } from '../shared/problem-details.ts';
import type { PublicResource } from './public-resource.ts';

/** Paths of WebSocket handshakes. */
const SOCKET_PATHS = ['/ws/state', '/ws/actors', '/mqtt'] as const;

const UPGRADE_REQUIRED = 'This path is a WebSocket: connect with ws:// or wss://.';

/** What a browser or a curl finds that opens the service, or a WebSocket, by HTTP. */
export const entryResources: readonly PublicResource[] = [
  {
    path: '/',
    // Relative: the public URL may have a path.
    respond: (_values, { headers }) =>
      headers.accept?.includes('text/html')
        ? {
            ...{ type: 'text/plain; charset=utf-8', body: '', status: 302 },
            headers: ['Location', './console', 'Vary', 'Accept'],
          }
        : null,
  },
  ...SOCKET_PATHS.map(
    (path): PublicResource => ({
      path,
      // RFC 9110 §15.5.22
      respond: (_values, { requestId }) => ({
        type: 'application/problem+json',
        body: JSON.stringify({
          ...problemOf({ code: 'VALIDATION_FAILED', detail: UPGRADE_REQUIRED }, path, requestId),
          ...{ title: 'A WebSocket handshake is required.', status: 426 },
        }),
        status: 426,
        headers: ['Upgrade', 'websocket', 'Connection', 'Upgrade'],
      }),
    }),
  ),
];
