import { WebSocket } from 'ws';
import type { Actors } from '../../src/actors/contract.ts';
import { clientAddress } from '../../src/edges/shared/client-address.ts';
import { actorStream } from '../../src/edges/websocket/actor-stream.ts';
import { makeWebSockets, type WebSocketEdge } from '../../src/edges/websocket/edge.ts';
import { stateStream } from '../../src/edges/websocket/state-stream.ts';
import type { WebSocketLimits } from '../../src/edges/websocket/websocket-limits.ts';
import type { VolatileOutput } from '../../src/machines/outputs.ts';
import type { DeviceStore } from '../../src/store/contract.ts';
import { schemaViolation } from './asyncapi-validation.ts';
import { eventually } from './clock.ts';
import type { HttpService } from './http-service.ts';

type States = Awaited<ReturnType<DeviceStore['states']>>;

/** A client of `/ws/state` and all it heard. */
export class SocketClient {
  readonly socket: WebSocket;
  readonly texts: string[] = [];
  readonly opened: Promise<void>;
  readonly closed: Promise<{ code: number; reason: string }>;

  constructor(url: string) {
    this.socket = new WebSocket(url);
    this.socket.on('message', (data) => {
      const text = String(data);
      this.texts.push(text);
      if (text.startsWith('{')) this.#undocumented ??= schemaViolation(JSON.parse(text));
    });
    this.opened = new Promise((resolve) => this.socket.once('open', () => resolve()));
    this.closed = new Promise((resolve, reject) => {
      this.socket.once('close', (code, reason) => resolve({ code, reason: String(reason) }));
      this.socket.once('error', reject);
    });
    this.closed.catch(() => {});
  }

  #undocumented: string | null = null;

  /** The JSON messages heard so far, each as `/asyncapi.json` tells of it. */
  get messages(): Record<string, unknown>[] {
    if (this.#undocumented !== null) throw new Error(this.#undocumented);
    return this.texts.filter((text) => text.startsWith('{')).map((text) => JSON.parse(text));
  }

  /** Once it has heard that many. */
  waitForMessages(count: number): Promise<Record<string, unknown>[]> {
    return eventually(() => (this.messages.length >= count ? this.messages : null));
  }
}

/** The edge on a house's HTTP server, fed by the house's runtime and by what a test emits. */
export interface TestSockets {
  sockets: WebSocketEdge;
  emit(output: VolatileOutput): void;
  /** What the store answers to a snapshot; a test may hold it back or change it. */
  store: { states: DeviceStore['states']; reads: number };
  /** Opens a client; resolves when it was let in or sent away. */
  connect(token: string | null, query?: string, path?: string): Promise<SocketClient>;
  /** How many listen to transitions. */
  edge: { watching: number };
  close(): Promise<void>;
}

export async function startTestSockets(
  house: HttpService,
  limits: Partial<WebSocketLimits> = {},
): Promise<TestSockets> {
  const listeners = new Map<string, Set<(output: never) => void>>();
  const { actors } = house.runtime;
  const on = ((type, sink) => {
    const sinks = listeners.get(type) ?? new Set();
    listeners.set(type, sinks.add(sink));
    const stop = actors.subscribe(type, sink);
    return () => {
      stop();
      sinks.delete(sink);
    };
  }) as Actors['subscribe'];
  const store = {
    reads: 0,
    states: async (): Promise<States> => [],
  } satisfies TestSockets['store'];
  const devices = {
    states: (...asked: Parameters<DeviceStore['states']>) => {
      store.reads++;
      return (store as TestSockets['store']).states(...asked);
    },
  };
  const heard: Pick<Actors, 'subscribeTransitions'> = {
    subscribeTransitions(watcher) {
      const stop = actors.subscribeTransitions(watcher);
      edge.watching++;
      return () => {
        edge.watching--;
        stop();
      };
    },
  };
  const edge = { watching: 0 };
  const sockets = makeWebSockets({
    services: {
      ...house.services,
      actors: { peek: (ref) => actors.peek(ref), read: (ref) => actors.read(ref), subscribe: on } as Actors,
    },
    streams: [stateStream({ actors: { subscribe: on }, store: { devices } }), actorStream({ actors: heard })],
    identity: house.identity,
    rateLimiter: house.gate,
    addressOf: clientAddress([]),
    limits: { checkIntervalMs: 20, ...limits },
  });
  house.server.on('upgrade', sockets.upgrade);
  const clients: SocketClient[] = [];
  return {
    sockets,
    store,
    edge,
    emit(output) {
      for (const sink of listeners.get(output.type) ?? []) sink(output as never);
    },
    async connect(token, query = '', path = '/ws/state') {
      const credential = token === null ? '' : `token=${encodeURIComponent(token)}&`;
      const client = new SocketClient(`${house.url.replace('http', 'ws')}${path}?${credential}${query}`);
      clients.push(client);
      await client.opened;
      return client;
    },
    async close() {
      for (const { socket } of clients) socket.terminate();
      house.server.off('upgrade', sockets.upgrade);
      await sockets.close();
    },
  };
}
