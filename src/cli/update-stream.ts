import { WebSocket } from 'ws';
import type { JsonObject } from '../domain/values.ts';
import type { RequestOptions } from './api.ts';
import { type Api, errorReason } from './api.ts';
import { RefusedError, UnreachableError } from './errors.ts';
import { onInterrupt } from './signals.ts';

/** An update as `/ws/state` tells it. */
export interface LiveUpdate extends JsonObject {
  type: string;
}

export interface StateStreamOptions {
  events: readonly string[];
  devices?: readonly string[];
  snapshot?: boolean;
}

export interface UpdateStream {
  /** Rejects with `Refused` or `Unreachable` when the service ends it; resolves after `close`. */
  ended: Promise<void>;
  close(): void;
}

/** Hears what `open` opens until Ctrl-C, its end, or so many updates. */
export async function consumeStream(
  open: (hear: UpdateListener) => Promise<UpdateStream>,
  hear: UpdateListener,
  count?: number,
): Promise<void> {
  let left = count ?? Number.POSITIVE_INFINITY;
  let enough = () => {};
  const asked = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const stopListening = onInterrupt(() => enough());
  try {
    const live = await open((update) => {
      if (left <= 0) return;
      hear(update);
      if (--left === 0) enough();
    });
    await Promise.race([asked, live.ended]);
    live.close();
    await live.ended;
  } finally {
    stopListening();
  }
}

/** A service that is there answers within two of these. */
const PING_MS = 20_000;

type UpdateListener = (update: LiveUpdate) => void;

/** `/ws/state` as it was asked for. Resolves when the service has let it in. */
export function openStateStream(
  api: Api,
  { events, devices = [], snapshot = false }: StateStreamOptions,
  hear: UpdateListener,
): Promise<UpdateStream> {
  const query = new URLSearchParams({ events: events.join(',') });
  for (const id of devices) query.append('device_id', id);
  if (snapshot) query.set('snapshot', '1');
  return openStream(api, '/ws/state', query, hear);
}

/** Opens a WebSocket with a ticket, so that no token stands in a URL. Resolves when the service has let it in. */
export async function openStream(
  api: Api,
  path: string,
  query: URLSearchParams,
  hear: UpdateListener,
): Promise<UpdateStream> {
  const options: RequestOptions = { retryWhenBusy: true, idempotent: true };
  const { ticket } = (await api.request<{ ticket: string }>('POST', '/ws/ticket', options)).body;
  query.set('token', ticket);
  const socket = new WebSocket(`${api.url.replace(/^http/, 'ws')}${path}?${query}`, { handshakeTimeout: 15_000 });
  let closing = false;
  let answered = true;
  let letIn = () => {};
  const admitted = new Promise<void>((resolve) => {
    letIn = resolve;
  });
  const ended = new Promise<void>((resolve, reject) => {
    let broken: unknown = null;
    socket.on('error', (error) => {
      broken = error;
    });
    socket.on('close', (code, reason) => {
      clearInterval(pinging);
      if (closing) resolve();
      else if (code >= 4400 || code === 1013) reject(new RefusedError({ status: code, title: `closed: ${reason}` }));
      else reject(new UnreachableError(broken === null ? `the stream ended (${code} ${reason})` : errorReason(broken)));
    });
  });
  socket.on('message', (data) => {
    answered = true;
    const text = String(data);
    // The first answer to a ping comes when the service has looked at the ticket.
    if (text === 'pong') letIn();
    else hear(JSON.parse(text) as LiveUpdate);
  });
  socket.on('open', () => socket.send('ping'));
  const pinging = setInterval(() => {
    if (!answered) socket.terminate();
    else if (socket.readyState === socket.OPEN) socket.send('ping');
    answered = false;
  }, PING_MS);
  await Promise.race([admitted, ended]);
  return {
    ended,
    close() {
      closing = true;
      socket.close();
    },
  };
}
