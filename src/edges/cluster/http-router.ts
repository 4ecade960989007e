import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { CollectionSizes, SizeReporter } from '../../domain/collection-sizes.ts';
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
import { BodyMemory, RequestBody } from './request-body.ts';
import { type ForwardedRequest, type ForwardOutcome, forwardRequest } from './request-forwarder.ts';
import type { Attempt, ShardRouter } from './shard-router.ts';
import { type TenantHints, targetOf } from './tenant-hints.ts';

/** The owner of the tenant is not known, not reachable, or did not answer. */
export const OWNER_UNAVAILABLE: Refusal = {
  code: 'OVERLOADED',
  detail: 'The node that serves this tenant is not available. Try again.',
  retryAfterS: 1,
};

export interface HttpRouterParts {
  /** This node, for the pool. */
  self: PeerNode;
  router: ShardRouter;
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
export class HttpRouter implements SizeReporter {
  readonly #parts: HttpRouterParts;
  readonly #bodyMemory = new BodyMemory();
  #forwarding = 0;

  constructor(parts: HttpRouterParts) {
    this.#parts = parts;
  }

  /** Requests that are with another node, or wait for one. */
  get forwarding(): number {
    return this.#forwarding;
  }

  sizes(): CollectionSizes {
    return { cluster_forwarding: this.#forwarding, cluster_kept_body_bytes: this.#bodyMemory.bytes };
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
    const { router, listener } = this.#parts;
    const route = router.enter(shard);
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
    entered: ReturnType<ShardDirectory['enter']>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const { router, listener, addressOf, self } = this.#parts;
    const body = new RequestBody(request, this.#bodyMemory);
    let wasBroken = false;
    const mayRepeat = (outcome: ForwardOutcome): boolean => {
      if (outcome !== 'broken') return outcome !== 'silent';
      // Once only: the request may have caused the failure.
      const isFirst = !wasBroken;
      wasBroken = true;
      return isFirst && isRepeatable(request);
    };
    const forward = async (node: PeerNode): Promise<Attempt> => {
      const outcome = await this.#forward(node, { request, response, body, shard, address: addressOf(request) });
      if (outcome === 'answered') return 'done';
      if (mayRepeat(outcome) && body.isReplayable) return 'again';
      this.#refuse(request, response, OWNER_UNAVAILABLE);
      return 'done';
    };
    const handlers = {
      here: async (leave: () => void, attempts: number) => {
        if (attempts === 0 && !response.destroyed) return serveHere(listener, request, response, leave);
        leave();
        // The body may have been read: it is sent again, over a link of this node to itself.
        if (attempts > 0 && (await forward(self)) === 'again') this.#refuse(request, response, OWNER_UNAVAILABLE);
      },
      there: forward,
    };
    this.#forwarding += 1;
    try {
      const isRouted = await router.route(shard, handlers, entered);
      if (!isRouted) this.#refuse(request, response, OWNER_UNAVAILABLE);
    } finally {
      this.#forwarding -= 1;
      body.forget();
    }
  }

  #forward(node: PeerNode, forwarded: ForwardedRequest): Promise<ForwardOutcome> {
    if (this.#parts.draining()) forwarded.response.shouldKeepAlive = false;
    return forwardRequest(this.#parts.pool, node, forwarded);
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

/** MCP has no keys, and a sign-in link or code works once. */
const NOT_REPEATABLE = /^(?:\/api)?(?:\/v1)?\/(?:mcp|auth)(?:[/?]|$)/;

/** Whether a request that may have been executed can be sent again: it changes nothing, or it has one effect by its key. */
function isRepeatable(request: IncomingMessage): boolean {
  if (NOT_REPEATABLE.test(targetOf(request))) return false;
  if (/^(?:GET|HEAD|OPTIONS)$/.test(request.method ?? '')) return true;
  return request.method === 'POST' && request.headers['idempotency-key'] !== undefined;
}
