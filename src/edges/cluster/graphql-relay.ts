import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type RawData, WebSocket, type WebSocketServer } from 'ws';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import { parseJson } from '../../domain/json/strict.ts';
import { isObject } from '../../domain/json/value.ts';
import type { Log } from '../../domain/log.ts';
import { type PeerNode, shardOf } from '../../domain/shards.ts';
import type { Milliseconds, Uuid } from '../../domain/values.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { credentialIn } from '../shared/http.ts';
import {
  type PendingSignIn,
  TOO_MANY_UNAUTHENTICATED,
  UnauthenticatedConnections,
  type UnauthenticatedLimits,
} from '../shared/unauthenticated-connections.ts';
import { ensureRequestId, makeWebSocketServer, refuseUpgrade } from '../shared/upgrade.ts';
import type { LinkDialler } from './link-dialler.ts';
import { CLIENT_ADDRESS_HEADER, removePrivateHeaders } from './link-headers.ts';
import type { LinkHttp, UpgradeListener } from './link-http.ts';
import { relayMessages } from './relay-messages.ts';
import type { Attempt, ShardRouter } from './shard-router.ts';
import type { TenantHints } from './tenant-hints.ts';

/** The limits of a GraphQL connection before its `connection_init`. */
export interface GraphqlConnectLimits {
  /** Bytes of a client's message. */
  maxPayload: number;
  /** Time from the handshake to `connection_init`. */
  initMs: Milliseconds;
  /** Connections before it. */
  unauthenticated: UnauthenticatedLimits;
}

export interface GraphqlRelayParts {
  router: ShardRouter;
  hints: Pick<TenantHints, 'ofCredential'>;
  dialler: Pick<LinkDialler, 'open'>;
  linkHttp: Pick<LinkHttp, 'connectUpgrade'>;
  limits: GraphqlConnectLimits;
  /** The client's address of a public request. */
  addressOf: AddressOf;
  newId(): Uuid;
  log: Log;
}

/** A client that has completed the handshake. */
interface Client {
  ws: WebSocket;
  requestId: Uuid;
  address: string;
  pending: PendingSignIn;
  /** Messages that arrived before the connection to the edge. */
  messages: { data: RawData; isBinary: boolean }[];
}

const SUBPROTOCOL = 'graphql-transport-ws';
const GOING_AWAY = 1001;
const TRY_AGAIN = 1013;
/** Close code of graphql-transport-ws. */
const INIT_TIMEOUT = 4408;
/** Time for the handshake with the edge of the owner. */
const HANDSHAKE_MS = 5_000;
/** Time that a client has to answer a close frame. */
const CLOSE_MS = 2_000;

/**
 * Relays GraphQL connections: their credential comes in the first message, after the handshake, so that the owner of the
 * tenant is not known before. Completes the handshake with the client, reads `connection_init`, and relays messages to a
 * WebSocket of the owner's GraphQL edge, also if that is on this node.
 */
export class GraphqlRelay implements SizeReporter {
  readonly #parts: GraphqlRelayParts;
  readonly #handshakes: WebSocketServer;
  readonly #clients = new Set<Client>();
  readonly #unauthenticated: UnauthenticatedConnections;

  constructor(parts: GraphqlRelayParts) {
    this.#parts = parts;
    const { maxPayload, unauthenticated } = parts.limits;
    this.#unauthenticated = new UnauthenticatedConnections(unauthenticated);
    this.#handshakes = makeWebSocketServer(
      { maxPayload, handleProtocols: (offered) => offered.has(SUBPROTOCOL) && SUBPROTOCOL },
      parts.newId,
    );
  }

  readonly upgrade: UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    removePrivateHeaders(request);
    const requestId = ensureRequestId(request, this.#parts.newId);
    const address = this.#parts.addressOf(request);
    const pending = this.#unauthenticated.admit(socket, address);
    if (pending === null) {
      refuseUpgrade(request, socket, TOO_MANY_UNAUTHENTICATED, { newId: this.#parts.newId });
      return;
    }
    this.#handshakes.handleUpgrade(request, socket, head, (ws) =>
      this.#serve({ ws, requestId, address, pending, messages: [] }),
    );
  };

  sizes(): CollectionSizes {
    return { cluster_graphql_clients: this.#clients.size, ...this.#unauthenticated.sizes() };
  }

  /** Closes all connections. */
  close(): void {
    for (const { ws } of this.#clients) end(ws, GOING_AWAY, 'the service is shutting down');
  }

  #serve(client: Client): void {
    const { ws } = client;
    this.#clients.add(client);
    // The library answers a client's protocol error with a close frame.
    ws.on('error', () => {});
    const timer = setTimeout(
      () => end(ws, INIT_TIMEOUT, 'Connection initialisation timeout'),
      this.#parts.limits.initMs,
    );
    ws.once('close', () => {
      clearTimeout(timer);
      this.#clients.delete(client);
    });
    ws.on('message', (data, isBinary) => void client.messages.push({ data, isBinary }));
    const route = () => {
      clearTimeout(timer);
      client.pending.received();
      // Messages that have arrived are queued; the next ones wait for the edge.
      ws.pause();
      this.#route(client).catch((thrown: unknown) => {
        this.#parts.log.warn({ request_id: client.requestId, err: thrown }, 'graphql connection not routed');
        end(ws, TRY_AGAIN, 'The service is not available. Try again.');
      });
    };
    // Without the subprotocol the edge closes the connection at once.
    if (ws.protocol === '') route();
    else ws.once('message', route);
  }

  async #route(client: Client): Promise<void> {
    const { router, hints, linkHttp } = this.#parts;
    const [first] = client.messages;
    const credential = first === undefined || first.isBinary ? null : credentialOf(String(first.data));
    const tenantId = credential === null ? null : await hints.ofCredential(credential, client.address);
    if (tenantId === null) return this.#join(client, linkHttp.connectUpgrade(noop));
    const shard = shardOf(tenantId);
    const routed = await router.route(shard, {
      here: (leave) => this.#join(client, linkHttp.connectUpgrade(leave)),
      there: (node) => this.#forward(client, node, shard),
    });
    if (!routed) end(client.ws, TRY_AGAIN, 'The node that serves this tenant is not available. Try again.');
  }

  /** The messages of the client are kept until the edge of the owner has completed its handshake. */
  async #forward(client: Client, node: PeerNode, shard: number): Promise<Attempt> {
    if (client.ws.readyState !== client.ws.OPEN) return 'done';
    try {
      const link = await this.#parts.dialler.open(node, { kind: 'upgrade', shard });
      await this.#join(client, link);
      return 'done';
    } catch (error) {
      this.#parts.log.debug({ request_id: client.requestId, err: error }, 'graphql connection not forwarded');
      return 'again';
    }
  }

  /** Connects a client with the edge at the other end of a link. Rejects if the edge cannot be reached. */
  async #join(client: Client, link: Duplex): Promise<void> {
    const { ws, messages } = client;
    if (ws.readyState !== ws.OPEN) return void link.destroy();
    const edge = await connectToEdge(link, client);
    client.pending.signedIn();
    ws.removeAllListeners('message');
    for (const { data, isBinary } of messages.splice(0)) edge.send(data, { binary: isBinary });
    relayMessages(ws, edge);
    if (ws.readyState !== ws.OPEN) edge.terminate();
  }
}

/** Rejects if the edge refuses the handshake or does not answer it, or if the link breaks. */
function connectToEdge(link: Duplex, { ws, requestId, address }: Client): Promise<WebSocket> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => link.destroy(), HANDSHAKE_MS);
    link.on('error', () => link.destroy());
    // The edge has its own limits; its messages are not limited again.
    const edge = new WebSocket('ws://cluster/graphql', ws.protocol === '' ? [] : [ws.protocol], {
      createConnection: () => link as never,
      headers: { 'X-Request-ID': requestId, [CLIENT_ADDRESS_HEADER]: address },
      ...{ perMessageDeflate: false, autoPong: false, maxPayload: 0 },
    });
    edge.on('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    edge.once('open', () => {
      clearTimeout(timer);
      resolve(edge);
    });
  });
}

const noop = (): void => {};

/** The credential in a `connection_init`; null if it is another message. The edge refuses it. */
function credentialOf(text: string): string | null {
  const read = parseJson(text);
  if (!read.ok || !isObject(read.value)) return null;
  const { type, payload } = read.value;
  if (type !== 'connection_init' || !isObject(payload)) return null;
  const [, value] = Object.entries(payload).find(([name]) => name.toLowerCase() === 'authorization') ?? [];
  return typeof value === 'string' ? credentialIn({ authorization: value }) : null;
}

function end(ws: WebSocket, code: number, reason: string): void {
  ws.resume();
  ws.close(code, reason);
  setTimeout(() => ws.terminate(), CLOSE_MS).unref();
}
