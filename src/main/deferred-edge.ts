import type { IncomingMessage, RequestListener } from 'node:http';
import type { Duplex } from 'node:stream';
import type { CollectionSizes, SizeReporter } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { Refusal } from '../domain/refusals.ts';
import type { Uuid } from '../domain/values.ts';
import { discardRest } from '../edges/shared/body.ts';
import { DRAINING } from '../edges/shared/http.ts';
import { httpExchangeOf, sendRefusal } from '../edges/shared/http-exchange.ts';
import { ensureRequestId, refuseUpgrade } from '../edges/shared/upgrade.ts';
import { refusalOf } from '../operations/faults.ts';

interface Edge extends SizeReporter {
  readonly listener: RequestListener;
  /** Not all edges have WebSockets. */
  upgrade?(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  endTenants(matches: (tenantId: Uuid) => boolean): void;
  close(): Promise<void>;
}

interface DeferredEdgeParts<E extends Edge> {
  /** Route of its requests in metrics and logs. */
  route: string;
  /** Imports the modules and creates the edge. */
  open(): Promise<E>;
  newId(): Uuid;
  /** Called for each response of its own, for metrics. */
  observe(route: string, method: string, status: number, milliseconds: number): void;
  log: Log;
}

/**
 * An edge of the HTTP server whose modules are loaded by its first request, or by `load`: a service is ready without
 * them, and they take a tenth of the time to load all modules. If they cannot be loaded, each request is refused with an
 * internal error, and the next one tries again: a process that has no free file descriptor may have one later.
 */
export class DeferredEdge<E extends Edge> implements SizeReporter {
  readonly #parts: DeferredEdgeParts<E>;
  #opening: Promise<E> | null = null;
  #edge: E | null = null;
  #closed = false;

  constructor(parts: DeferredEdgeParts<E>) {
    this.#parts = parts;
  }

  /** Null until it is loaded. */
  get edge(): E | null {
    return this.#edge;
  }

  /** Loads the modules before the first request, unless the edge is closed. An error is logged. */
  async load(): Promise<void> {
    if (!this.#closed) await this.#opened().catch(() => {});
  }

  readonly listener: RequestListener = (request, response) => {
    if (this.#edge !== null && !this.#closed) return this.#edge.listener(request, response);
    const started = performance.now();
    this.#ready()
      .then((edge) => {
        if (!response.destroyed) edge.listener(request, response);
      })
      .catch((thrown: unknown) => {
        const exchange = httpExchangeOf(request, response, { newId: this.#parts.newId, isLast: () => this.#closed });
        response.on('finish', () => {
          const { route, observe } = this.#parts;
          observe(route, exchange.method, response.statusCode, performance.now() - started);
          if (!request.complete) discardRest(request);
        });
        sendRefusal(exchange, this.#refusalOf(thrown, exchange.requestId));
      });
  };

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    if (this.#edge !== null && !this.#closed) {
      this.#edge.upgrade?.(request, socket, head);
      return;
    }
    const destroy = (): void => void socket.destroy();
    socket.on('error', destroy);
    this.#ready()
      .then((edge) => {
        // The error of a destroyed socket may follow.
        if (socket.destroyed) return;
        socket.off('error', destroy);
        edge.upgrade?.(request, socket, head);
      })
      .catch((thrown: unknown) => {
        const { newId } = this.#parts;
        refuseUpgrade(request, socket, this.#refusalOf(thrown, ensureRequestId(request, newId)), { newId });
      });
  }

  endTenants(matches: (tenantId: Uuid) => boolean): void {
    this.#edge?.endTenants(matches);
  }

  sizes(): CollectionSizes {
    return this.#edge?.sizes() ?? {};
  }

  /** From now on requests are refused, also those that wait for the modules, and nothing is loaded. */
  async close(): Promise<void> {
    this.#closed = true;
    const edge = await this.#opening?.catch(() => null);
    await edge?.close();
  }

  /** The edge for a request; rejects if it is closed. */
  async #ready(): Promise<E> {
    const edge = this.#closed ? null : await this.#opened();
    if (edge === null || this.#closed) throw new EdgeClosed();
    return edge;
  }

  #refusalOf(thrown: unknown, requestId: Uuid): Refusal {
    const { log, route } = this.#parts;
    return thrown instanceof EdgeClosed
      ? DRAINING
      : refusalOf(thrown, log, { request_id: requestId, operation: route });
  }

  #opened(): Promise<E> {
    this.#opening ??= this.#open();
    return this.#opening;
  }

  async #open(): Promise<E> {
    try {
      this.#edge = await this.#parts.open();
      return this.#edge;
    } catch (error) {
      this.#opening = null;
      this.#parts.log.error({ err: error, route: this.#parts.route }, 'edge not loaded');
      throw error;
    }
  }
}

class EdgeClosed extends Error {
  override name = 'EdgeClosed';
}
