import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import { type Duplex, duplexPair } from 'node:stream';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
import type { Refusal } from '../../domain/refusals.ts';
import { SHARD_COUNT, type ShardDirectory, type ShardRoute } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import { discardRest } from '../shared/body.ts';
import { httpExchangeOf, send } from '../shared/http-exchange.ts';
import { problemOf } from '../shared/problem-details.ts';
import { type LinkSockets, MISDIRECTED_HEADER, SHARD_HEADER } from './link-headers.ts';
import { serveHere } from './local-requests.ts';

export type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => void;

export interface LinkHttpParts {
  directory: Pick<ShardDirectory, 'enter'>;
  listener: RequestListener;
  upgrade: UpgradeListener;
  linkSockets: LinkSockets;
  newId(): Uuid;
}

const options = {
  // The client's timeouts apply where it is connected.
  requestTimeout: 0,
  headersTimeout: 10_000,
  // Longer than the pool keeps an idle link.
  keepAliveTimeout: 65_000,
  // That of the public server, and the private headers.
  maxHeaderSize: 18 * 1024,
  // A request of HTTP/1.0 may have none.
  requireHostHeader: false,
  shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === 'websocket',
} satisfies ServerOptions;

const NOT_HERE: Refusal = { code: 'OVERLOADED', detail: 'Another node serves this tenant.', retryAfterS: 1 };

/** Serves HTTP on links: requests of the shards that this node owns, and single upgrade requests. */
export class LinkHttp implements SizeReporter {
  readonly #parts: LinkHttpParts;
  readonly #requests;
  /** Accepts one upgrade request on each link, and no other request. */
  readonly #upgrades;
  readonly #leaves = new WeakMap<Duplex, () => void>();
  readonly #responses = new Set<ServerResponse>();

  constructor(parts: LinkHttpParts) {
    this.#parts = parts;
    this.#requests = createServer(options, (request, response) => this.#serve(request, response));
    this.#requests.on('upgrade', (_request, socket) => socket.destroy());
    this.#upgrades = createServer(options, ({ socket }) => void socket.destroy());
    this.#upgrades.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
    for (const server of [this.#requests, this.#upgrades])
      server.on('clientError', (_error, socket) => socket.destroy());
  }

  /** Serves the requests of a link. */
  acceptRequests(socket: Duplex): void {
    this.#parts.linkSockets.add(socket);
    this.#requests.emit('connection', socket);
  }

  /** Serves the upgrade request of a link whose shard is here; `leave` ends the entry into it. */
  acceptUpgrade(socket: Duplex, leave: () => void): void {
    this.#parts.linkSockets.add(socket);
    this.#leaves.set(socket, leave);
    socket.once('close', () => this.#leave(socket));
    this.#upgrades.emit('connection', socket);
  }

  /** A link of this node to itself, without a socket. */
  connectRequests(): Duplex {
    const [near, far] = localPair();
    this.acceptRequests(far);
    return near;
  }

  /** As `connectRequests`, for one upgrade request. */
  connectUpgrade(leave: () => void): Duplex {
    const [near, far] = localPair();
    this.acceptUpgrade(far, leave);
    return near;
  }

  /** Responses to other nodes in progress. */
  get responses(): number {
    return this.#responses.size;
  }

  sizes(): CollectionSizes {
    return { cluster_forwarded_responses: this.#responses.size };
  }

  /** From now on each link is closed after its response. */
  drain(): void {
    this.#requests.close();
    this.#requests.closeIdleConnections();
    for (const response of this.#responses) if (!response.headersSent) response.shouldKeepAlive = false;
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    this.#responses.add(response);
    response.once('close', () => this.#responses.delete(response));
    const shard = Number(request.headers[SHARD_HEADER] ?? 'NaN');
    const isShard = Number.isInteger(shard) && shard >= 0 && shard < SHARD_COUNT;
    const route: ReturnType<ShardDirectory['enter']> = isShard ? this.#parts.directory.enter(shard) : { at: 'none' };
    if (route instanceof Promise) {
      route.then(
        (entered) => this.#answer(entered, request, response),
        () => this.#misdirect(request, response),
      );
    } else {
      this.#answer(route, request, response);
    }
  }

  #answer(route: ShardRoute, request: IncomingMessage, response: ServerResponse): void {
    if (route.at !== 'here') this.#misdirect(request, response);
    else if (response.destroyed) route.leave();
    else serveHere(this.#parts.listener, request, response, () => route.leave());
  }

  /** The sending node tries the owner, so no client reads this response. */
  #misdirect(request: IncomingMessage, response: ServerResponse): void {
    const exchange = httpExchangeOf(request, response, this.#parts);
    const problem = { ...problemOf(NOT_HERE, exchange.path, exchange.requestId), status: 421, title: 'Misdirected' };
    const content = { type: 'application/problem+json', body: JSON.stringify(problem) };
    response.once('finish', () => request.readableEnded || discardRest(request));
    send(exchange, problem.status, content, [MISDIRECTED_HEADER, '1']);
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#parts.upgrade(request, socket, head);
    this.#leave(socket);
  }

  #leave(socket: Duplex): void {
    this.#leaves.get(socket)?.();
    this.#leaves.delete(socket);
  }
}

/** The two ends of a local link. In Node.js an end that is destroyed does not close the other one. */
function localPair(): [Duplex, Duplex] {
  const [near, far] = duplexPair();
  near.once('close', () => far.destroy());
  // What was written before the end is still read.
  far.once('close', () => far.writableFinished || near.destroy());
  return [near, far];
}
