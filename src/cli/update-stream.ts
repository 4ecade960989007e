import { WebSocket } from 'ws';
import type { JsonObject } from '../domain/values.ts';
import type { RequestOptions } from './api.ts';
import { type Api, errorReason } from './api.ts';
import { RefusedError, UnreachableError } from './errors.ts';

/** One update from `/ws/state` or `/ws/actors`. */
export interface LiveUpdate extends JsonObject {
  type: string;
}

export interface StateStreamOptions {
  events: readonly string[];
  devices?: readonly string[];
  snapshot?: boolean;
}

export interface UpdateSubscription {
  /** Resolves after `close`; rejects with `RefusedError` or `UnreachableError` if the service ends the stream. */
  ended: Promise<void>;
  close(): void;
}

/** Ping interval. A connection without any message between two pings is terminated. */
const PING_MS = 20_000;

export type UpdateListener = (update: LiveUpdate) => void;

/** Opens `/ws/state` with these filters. Resolves when the service has accepted the ticket. */
export function openStateStream(
  api: Api,
  { events, devices = [], snapshot = false }: StateStreamOptions,
  onUpdate: UpdateListener,
): Promise<UpdateSubscription> {
  const query = new URLSearchParams({ events: events.join(',') });
  for (const id of devices) query.append('device_id', id);
  if (snapshot) query.set('snapshot', '1');
  return openStream(api, '/ws/state', query, onUpdate);
}

/**
 * Opens a WebSocket with a one-time ticket, so that no token is in the URL. Resolves when the service has accepted the
 * ticket.
 */
export async function openStream(
  api: Api,
  path: string,
  query: URLSearchParams,
  onUpdate: UpdateListener,
): Promise<UpdateSubscription> {
  const options: RequestOptions = { retryWhenBusy: true, idempotent: true };
  const { ticket } = (await api.request<{ ticket: string }>('POST', '/ws/ticket', options)).body;
  query.set('token', ticket);
  const socket = new WebSocket(`${api.url.replace(/^http/, 'ws')}${path}?${query}`, { handshakeTimeout: 15_000 });
  let closing = false;
  let answered = true;
  const admitted = Promise.withResolvers<void>();
  const ended = new Promise<void>((resolve, reject) => {
    let failure: unknown = null;
    socket.on('error', (error) => {
      failure = error;
    });
    socket.on('close', (code, reason) => {
      clearInterval(pinging);
      if (closing) resolve();
      else if (code >= 4400 || code === 1013) reject(new RefusedError({ status: code, title: `closed: ${reason}` }));
      else
        reject(
          new UnreachableError(
            failure === null ? `the service closed the stream (${code} ${reason})` : errorReason(failure),
          ),
        );
    });
  });
  socket.on('message', (data) => {
    answered = true;
    const text = String(data);
    // The service answers pings only after it has accepted the ticket.
    if (text === 'pong') admitted.resolve();
    else onUpdate(JSON.parse(text) as LiveUpdate);
  });
  socket.on('open', () => socket.send('ping'));
  const pinging = setInterval(() => {
    if (!answered) socket.terminate();
    else if (socket.readyState === socket.OPEN) socket.send('ping');
    answered = false;
  }, PING_MS);
  await Promise.race([admitted.promise, ended]);
  return {
    ended,
    close() {
      closing = true;
      socket.close();
    },
  };
}
