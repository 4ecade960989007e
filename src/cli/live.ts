import { WebSocket } from 'ws';
import type { JsonObject } from '../domain/values.ts';
import { type Api, reasonOf } from './api.ts';
import { Refused, Unreachable } from './failures.ts';
import { onInterrupt } from './signals.ts';

/** An update as `/ws/state` tells it. */
export interface LiveUpdate extends JsonObject {
  type: string;
}

export interface LiveOptions {
  events: readonly string[];
  devices?: readonly string[];
  snapshot?: boolean;
}

export interface Live {
  /** Rejects with `Refused` or `Unreachable` when the service ends it; resolves after `close`. */
  ended: Promise<void>;
  close(): void;
}

/** Hears what `open` opens until Ctrl-C, its end, or so many updates. */
export async function follow(open: (hear: Hear) => Promise<Live>, hear: Hear, count?: number): Promise<void> {
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

type Hear = (update: LiveUpdate) => void;

/** `/ws/state` as it was asked for. Resolves when the service has let it in. */
export function openLive(api: Api, { events, devices = [], snapshot = false }: LiveOptions, hear: Hear): Promise<Live> {
  const query = new URLSearchParams({ events: events.join(',') });
  for (const id of devices) query.append('device_id', id);
  if (snapshot) query.set('snapshot', '1');
  return openStream(api, '/ws/state', query, hear);
}

/** Opens a WebSocket with a ticket, so that no token stands in a URL. Resolves when the service has let it in. */
export async function openStream(api: Api, path: string, query: URLSearchParams, hear: Hear): Promise<Live> {
  const asking = { patient: true, repeatable: true };
  const { ticket } = (await api.ask<{ ticket: string }>('POST', '/ws/ticket', asking)).body;
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
      else if (code >= 4400 || code === 1013) reject(new Refused({ status: code, title: `closed: ${reason}` }));
      else reject(new Unreachable(broken === null ? `the stream ended (${code} ${reason})` : reasonOf(broken)));
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
