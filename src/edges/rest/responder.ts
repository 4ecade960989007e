import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { Log } from '../../domain/log.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import { Aborted, discardRest, TooSlow } from '../shared/body.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { DRAINING } from '../shared/http.ts';
import { applyCharge, type HttpExchange, send, sendRefusal } from '../shared/http-exchange.ts';
import type { RequestRateLimiter } from '../shared/rate-limiter.ts';
import { sendRequestTimeout } from '../shared/upgrade.ts';
import { NOT_FOUND, type RouteEntry } from './route-entry.ts';

/** Runs the handling of a request inside a trace span; `route` is null for an unknown path. */
export type TraceRequest = (
  about: {
    route: string | null;
    method: string;
    headers: IncomingHttpHeaders;
    requestId: Uuid;
    response: ServerResponse;
  },
  run: () => void,
) => void;

export interface ResponderParts {
  rateLimiter: RequestRateLimiter;
  addressOf: AddressOf;
  newId(): Uuid;
  log: Log;
  /** Called for each response, with the route's pattern, never the path. */
  observe(route: string, method: string, status: number, milliseconds: number): void;
  trace?: TraceRequest;
  /** True from SIGTERM on: new requests are refused, except health checks. */
  draining(): boolean;
}

/** Answers an exchange after it was routed: traces, observes and logs it, and answers for a handler that fails. */
export class Responder {
  readonly #parts: ResponderParts;

  constructor(parts: ResponderParts) {
    this.#parts = parts;
  }

  /** Answers by an entry. `values` are the texts of the path's `{…}` segments. */
  answer(exchange: HttpExchange, entry: RouteEntry, values: readonly string[]): void {
    this.#run(exchange, entry, () => {
      if (this.#parts.draining() && !entry.label.startsWith('/health')) return sendRefusal(exchange, DRAINING);
      entry.answer(exchange, values, entry.root).catch((thrown: unknown) => this.refuseThrown(exchange, thrown));
    });
  }

  /** Passes the request to another edge by `pass`; the edge observes its responses itself. */
  forward(exchange: HttpExchange, pass: () => void): void {
    // The edge takes the request ID from the header, so that it matches the trace.
    exchange.request.headers['x-request-id'] = exchange.requestId;
    this.#trace(exchange, null, () => {
      try {
        pass();
      } catch (thrown) {
        this.refuseThrown(exchange, thrown);
      }
    });
  }

  /** Answers for a path that has no resource. */
  refusePath(exchange: HttpExchange): void {
    this.#run(exchange, null, () => {
      if (this.#charge(exchange)) sendRefusal(exchange, NOT_FOUND);
    });
  }

  /** Answers a method that the path does not have. `allow` is the value of the `Allow` header. */
  refuseMethod(exchange: HttpExchange, allow: string): void {
    this.#run(exchange, null, () => {
      if (!this.#charge(exchange)) return;
      const headers = ['Allow', allow];
      if (exchange.method === 'OPTIONS') send(exchange, 204, null, headers);
      else sendRefusal(exchange, { code: 'METHOD_NOT_ALLOWED', detail: `This path accepts ${allow}.` }, headers);
    });
  }

  /** Answers for a handler that failed. */
  refuseThrown(exchange: HttpExchange, thrown: unknown): void {
    if (thrown instanceof Aborted) return;
    const { newId, log } = this.#parts;
    if (thrown instanceof TooSlow) sendRequestTimeout(exchange.request, newId);
    else sendRefusal(exchange, refusalOf(thrown, log, { request_id: exchange.requestId }));
  }

  #run(exchange: HttpExchange, entry: RouteEntry | null, respond: () => void): void {
    this.#trace(exchange, entry, () => {
      this.#observe(exchange, entry);
      respond();
    });
  }

  #trace(exchange: HttpExchange, entry: RouteEntry | null, run: () => void): void {
    const { trace } = this.#parts;
    const { method, request, requestId, response } = exchange;
    if (trace === undefined) run();
    else trace({ route: entry?.label ?? null, method, headers: request.headers, requestId, response }, run);
  }

  #observe({ request, response, method, path, requestId }: HttpExchange, entry: RouteEntry | null): void {
    const started = performance.now();
    response.on('finish', () => {
      const ms = performance.now() - started;
      this.#parts.observe(entry?.label ?? 'none', method, response.statusCode, ms);
      if (!request.complete) discardRest(request);
      const loggedPath = entry?.secret ? entry.label : path;
      this.#parts.log.debug(
        { request_id: requestId, method, path: loggedPath, status: response.statusCode, ms },
        'http: request completed',
      );
    });
  }

  #charge(exchange: HttpExchange): boolean {
    const { rateLimiter, addressOf } = this.#parts;
    return applyCharge(exchange, rateLimiter.chargeAnonymous(addressOf(exchange.request)));
  }
}
