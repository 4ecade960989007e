import { WebSocket } from 'ws';
import type { Actors } from '../../src/actors/contract.ts';
import { clientAddress } from '../../src/edges/shared/client-address.ts';
import { actorStream } from '../../src/edges/websocket/actor-stream.ts';
import { WebSocketEdge } from '../../src/edges/websocket/edge.ts';
import { stateStream } from '../../src/edges/websocket/state-stream.ts';
import type { WebSocketLimits } from '../../src/edges/websocket/websocket-limits.ts';
import type { ActorRef, VolatileOutput } from '../../src/machines/outputs.ts';
import type { DeviceStore } from '../../src/store/contract.ts';
import { schemaViolation } from './asyncapi-validation.ts';
import { eventually } from './clock.ts';
import type { HttpService } from './http-service.ts';

type States = Awaited<ReturnType<DeviceStore['states']>>;

/** A client of `/ws/state` that records all received messages. */
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

  /** Received JSON messages, each validated against `/asyncapi.json`. */
  get messages(): Record<string, unknown>[] {
    if (this.#undocumented !== null) throw new Error(this.#undocumented);
    return this.texts.filter((text) => text.startsWith('{')).map((text) => JSON.parse(text));
  }

  /** Resolves when `count` messages have been received. */
  waitForMessages(count: number): Promise<Record<string, unknown>[]> {
    return eventually(() => (this.messages.length >= count ? this.messages : null));
  }
}

/** The WebSocket edge on a service's HTTP server, with the service's runtime and outputs that a test emits. */
export interface TestSockets {
  sockets: WebSocketEdge;
  emit(output: VolatileOutput): void;
  /** The store's response to a snapshot; a test may delay or change it. */
  store: { states: DeviceStore['states']; reads: number };
  /** Opens a client; resolves when the connection is open. */
  connect(token: string | null, query?: string, path?: string): Promise<SocketClient>;
  /** Number of subscribers to transitions. */
  edge: { watching: number };
  close(): Promise<void>;
}

export async function startTestSockets(
  service: HttpService,
  limits: Partial<WebSocketLimits> = {},
): Promise<TestSockets> {
  const listeners = new Map<string, Set<(output: never) => void>>();
  const { actors } = service.runtime;
  const subscribe = ((type, sink) => {
    const subscribers = listeners.get(type) ?? new Set();
    listeners.set(type, subscribers.add(sink));
    const unsubscribe = actors.subscribe(type, sink);
    return () => {
      unsubscribe();
      subscribers.delete(sink);
    };
  }) as Actors['subscribe'];
  const store = {
    reads: 0,
    states: async (): Promise<States> => [],
  } satisfies TestSockets['store'];
  const devices = {
    states: (...args: Parameters<DeviceStore['states']>) => {
      store.reads++;
      return (store as TestSockets['store']).states(...args);
    },
  };
  const transitions: Pick<Actors, 'subscribeTransitions'> = {
    subscribeTransitions(watcher) {
      const unsubscribe = actors.subscribeTransitions(watcher);
      edge.watching++;
      return () => {
        edge.watching--;
        unsubscribe();
      };
    },
  };
  const edge = { watching: 0 };
  const sockets = new WebSocketEdge({
    services: {
      ...service.services,
      actors: {
        owns: () => true,
        peek: (ref: ActorRef) => actors.peek(ref),
        read: (ref: ActorRef) => actors.read(ref),
        subscribe,
      } as unknown as Actors,
    },
    streams: [stateStream({ actors: { subscribe }, store: { devices } }), actorStream({ actors: transitions })],
    identity: service.identity,
    rateLimiter: service.rateLimiter,
    addressOf: clientAddress([]),
    limits: { checkIntervalMs: 20, ...limits },
  });
  const upgrade: WebSocketEdge['upgrade'] = (request, socket, head) => sockets.upgrade(request, socket, head);
  service.server.on('upgrade', upgrade);
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
      const client = new SocketClient(`${service.url.replace('http', 'ws')}${path}?${credential}${query}`);
      clients.push(client);
      await client.opened;
      return client;
    },
    async close() {
      for (const { socket } of clients) socket.terminate();
      service.server.off('upgrade', upgrade);
      await sockets.close();
    },
  };
}
