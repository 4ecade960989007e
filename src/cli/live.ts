import { WebSocket } from 'ws';
import type { JsonObject } from '../domain/values.ts';
import { type Api, reasonOf } from './api.ts';
import { Refused, Unreachable } from './failures.ts';

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

/** A service that is there answers within two of these. */
const PING_MS = 20_000;

/** Opens `/ws/state` with a ticket, so that no token stands in a URL. Resolves when the service has let it in. */
export async function openLive(
  api: Api,
  { events, devices = [], snapshot = false }: LiveOptions,
  hear: (update: LiveUpdate) => void,
): Promise<Live> {
  const { ticket } = await api.post<{ ticket: string }>('/ws/ticket');
  const query = new URLSearchParams({ token: ticket, events: events.join(',') });
  for (const id of devices) query.append('device_id', id);
  if (snapshot) query.set('snapshot', '1');
  const socket = new WebSocket(`${api.url.replace(/^http/, 'ws')}/ws/state?${query}`, { handshakeTimeout: 15_000 });
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
