import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Log } from '../../domain/log.ts';
import type { Refusal } from '../../domain/refusals.ts';
import { type PeerNode, type ShardDirectory, shardOf } from '../../domain/shards.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import { discardRest } from '../shared/body.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { httpExchangeOf, sendRefusal } from '../shared/http-exchange.ts';
import { ensureRequestId } from '../shared/upgrade.ts';
import { removePrivateHeaders } from './link-headers.ts';
import type { LinkPool } from './link-pool.ts';
import { serveHere } from './local-requests.ts';
import { RequestBody } from './request-body.ts';
import { type ForwardedRequest, type ForwardOutcome, forwardRequest } from './request-forwarder.ts';
import { type Attempt, routeShard } from './route-shard.ts';
import type { TenantHints } from './tenant-hints.ts';

/** The owner of the tenant is not known, not reachable, or did not answer. */
export const OWNER_UNAVAILABLE: Refusal = {
  code: 'OVERLOADED',
  detail: 'The node that serves this tenant is not available. Try again.',
  retryAfterS: 1,
};

export interface HttpRouterParts {
  /** This node, for the pool. */
  self: PeerNode;
  directory: ShardDirectory;
  hints: Pick<TenantHints, 'ofRequest'>;
  /** Serves requests of the shards of this node, and those without a tenant. */
  listener: RequestListener;
  pool: LinkPool;
  /** The client's address of a public request. */
  addressOf: AddressOf;
  newId(): Uuid;
  /** True while the process stops: connections are closed after their response. */
  draining(): boolean;
  log: Log;
}

/** Request listener of the public HTTP server of a node: serves a request here or passes it on to the owner. */
export class HttpRouter {
  readonly #parts: HttpRouterParts;
  #forwarding = 0;

  constructor(parts: HttpRouterParts) {
    this.#parts = parts;
  }

  /** Requests that are with another node. */
  get forwarding(): number {
    return this.#forwarding;
  }

  readonly listener: RequestListener = (request, response) => {
    const { hints, listener } = this.#parts;
    removePrivateHeaders(request);
    try {
      const hint = hints.ofRequest(request);
      if (hint === null) return listener(request, response);
      if (typeof hint === 'string') return this.#serve(shardOf(hint), request, response);
      hint.then(
        (tenantId) => {
          if (response.destroyed) return;
          if (tenantId === null) listener(request, response);
          else this.#serve(shardOf(tenantId), request, response);
        },
        (thrown: unknown) => this.#refuseThrown(request, response, thrown),
      );
    } catch (thrown) {
      this.#refuseThrown(request, response, thrown);
    }
  };

  /** Without a promise for a request that is served here. */
  #serve(shard: number, request: IncomingMessage, response: ServerResponse): void {
    const { directory, listener } = this.#parts;
    const route = directory.enter(shard);
    if (!(route instanceof Promise) && route.at === 'here') {
      serveHere(listener, request, response, () => route.leave());
      return;
    }
    this.#route(shard, route, request, response).catch((thrown: unknown) =>
      this.#refuseThrown(request, response, thrown),
    );
  }

  async #route(
    shard: number,
    first: ReturnType<ShardDirectory['enter']>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { directory, listener, addressOf, self } = this.#parts;
    const body = new RequestBody(request);
    let entered: ReturnType<ShardDirectory['enter']> | null = first;
    const enter = (of: number) => {
      const route = entered ?? directory.enter(of);
      entered = null;
      return route;
    };
    const forward = async (node: PeerNode): Promise<Attempt> => {
      const outcome = await this.#forward(node, { request, response, body, shard, address: addressOf(request) });
      if (outcome === 'answered') return 'done';
      if (outcome !== 'broken' && body.isReplayable) return 'again';
      this.#refuse(request, response, OWNER_UNAVAILABLE);
      return 'done';
    };
    const routed = await routeShard({ enter, refresh: () => directory.refresh() }, shard, {
      here: async (leave, attempts) => {
        if (attempts === 0 && !response.destroyed) return serveHere(listener, request, response, leave);
        leave();
        // The body was read in the first attempt: it is sent again, over a link of this node to itself.
        if (attempts > 0 && (await forward(self)) === 'again') this.#refuse(request, response, OWNER_UNAVAILABLE);
      },
      there: forward,
    });
    if (!routed) this.#refuse(request, response, OWNER_UNAVAILABLE);
  }

  async #forward(node: PeerNode, forwarded: ForwardedRequest): Promise<ForwardOutcome> {
    if (this.#parts.draining()) forwarded.response.shouldKeepAlive = false;
    this.#forwarding += 1;
    try {
      return await forwardRequest(this.#parts.pool, node, forwarded);
    } finally {
      this.#forwarding -= 1;
    }
  }

  #refuseThrown(request: IncomingMessage, response: ServerResponse, thrown: unknown): void {
    const { log, newId } = this.#parts;
    const about = { request_id: ensureRequestId(request, newId), operation: 'cluster routing' };
    this.#refuse(request, response, refusalOf(thrown, log, about));
  }

  #refuse(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
    if (response.headersSent || response.destroyed) return;
    const { newId, draining: isLast } = this.#parts;
    response.once('finish', () => request.readableEnded || discardRest(request));
    sendRefusal(httpExchangeOf(request, response, { newId, isLast }), refusal);
  }
}
