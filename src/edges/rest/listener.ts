import type { IncomingHttpHeaders, RequestListener, ServerResponse } from 'node:http';
import type { Log } from '../../domain/log.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { Perform } from '../../operations/perform.ts';
import { Aborted, discardRest, TooSlow } from '../shared/body.ts';
import { type AddressOf, clientAddress } from '../shared/client-address.ts';
import { DRAINING } from '../shared/http.ts';
import type { HttpAuthenticator } from '../shared/http-authenticator.ts';
import { applyCharge, type HttpExchange, httpExchangeOf, send, sendRefusal } from '../shared/http-exchange.ts';
import type { RateLimiter } from '../shared/rate-limiter.ts';
import { sendRequestTimeout } from '../shared/upgrade.ts';
import { type ExchangeHandler, makeOperationHandler } from './operation-handler.ts';
import type { PublicResource } from './public-resource.ts';
import { BASE_PATHS, type Route } from './route.ts';
import { makeRouter, type RouteMatch } from './router.ts';

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

export interface RestParts {
  routes: readonly Route[];
  resources: readonly PublicResource[];
  authenticator: HttpAuthenticator;
  perform: Perform;
  rateLimiter: RateLimiter;
  /** Base URL for clients, without a trailing slash; if empty, links are relative. */
  publicUrl?(): string;
  newId(): Uuid;
  log: Log;
  /** Addresses or ranges of proxies whose `X-Forwarded-*` headers are trusted. */
  trustedProxies: readonly string[];
  /** Called for each response, with the route's pattern, never the path. */
  observe(route: string, method: string, status: number, milliseconds: number): void;
  trace?: TraceRequest;
  /** True from SIGTERM on: new requests are refused, except health checks. */
  draining(): boolean;
  /** Other edges by their first path segment: `graphql`, `mcp`, `console`. */
  mounts?: Readonly<Record<string, RequestListener>>;
}

interface RouteEntry {
  method: string;
  path: string;
  root: string;
  /** The pattern without its base path, for metrics. */
  label: string;
  /** The path contains a secret and must not be logged. */
  secret?: boolean;
  answer: ExchangeHandler;
}

/** Request listener of the HTTP server. Dispatches mounted edges by the first path segment and all other paths by the router. */
export function makeRestListener(given: RestParts): RequestListener {
  const parts = { ...given, addressOf: clientAddress(given.trustedProxies) };
  const router = makeRouter([
    ...parts.routes.flatMap((route) => routeEntries(parts, route)),
    ...parts.resources.flatMap((resource) => resourceEntries(parts, resource)),
  ]);
  const mounts = new Map(Object.entries(parts.mounts ?? {}));
  const exchangeParts = { newId: parts.newId, isLast: parts.draining };
  return (request, response) => {
    const exchange = httpExchangeOf(request, response, exchangeParts);
    const mount = mounts.size === 0 ? undefined : mounts.get(exchange.path.split('/', 2)[1] ?? '');
    const found = mount === undefined ? router.find(exchange.method, exchange.path) : null;
    // Mounted edges take the request ID from the header, so that it matches the trace.
    if (mount !== undefined) request.headers['x-request-id'] = exchange.requestId;
    const handle = () => {
      try {
        if (mount === undefined) serve(parts, exchange, found);
        else mount(request, response);
      } catch (thrown) {
        refuseThrown(parts, exchange, thrown);
      }
    };
    if (parts.trace === undefined) handle();
    else parts.trace(aboutRequest(exchange, found), handle);
  };
}

function aboutRequest(
  { method, request, requestId, response }: HttpExchange,
  found: RouteMatch<RouteEntry>,
): Parameters<TraceRequest>[0] {
  const route = found !== null && 'entry' in found ? found.entry.label : null;
  return { route, method, headers: request.headers, requestId, response };
}

type Parts = RestParts & { addressOf: AddressOf };

function serve(parts: Parts, exchange: HttpExchange, found: RouteMatch<RouteEntry>): void {
  const started = performance.now();
  const entry = found !== null && 'entry' in found ? found.entry : null;
  exchange.response.on('finish', () => {
    const { method, path, requestId, response } = exchange;
    const ms = performance.now() - started;
    parts.observe(entry?.label ?? 'none', method, response.statusCode, ms);
    const loggedPath = entry?.secret ? entry.label : path;
    if (!exchange.request.complete) discardRest(exchange.request);
    parts.log.debug(
      { request_id: requestId, method, path: loggedPath, status: response.statusCode, ms },
      'http: request completed',
    );
  });
  if (found === null || !('entry' in found)) {
    if (!applyCharge(exchange, parts.rateLimiter.chargeAnonymous(parts.addressOf(exchange.request)))) return;
    if (found === null) sendRefusal(exchange, NOT_FOUND);
    else refuseMethod(exchange, found.allow);
  } else if (parts.draining() && !found.entry.label.startsWith('/health')) {
    sendRefusal(exchange, DRAINING);
  } else {
    found.entry.answer(exchange, found.values, found.entry.root).catch((thrown: unknown) => {
      if (thrown instanceof Aborted) return;
      if (thrown instanceof TooSlow) return sendRequestTimeout(exchange.request, parts.newId);
      refuseThrown(parts, exchange, thrown);
    });
  }
}

const refuseThrown = ({ log }: Parts, exchange: HttpExchange, thrown: unknown): void =>
  sendRefusal(exchange, refusalOf(thrown, log, { request_id: exchange.requestId }));

const NOT_FOUND: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };

function refuseMethod(exchange: HttpExchange, allow: string): void {
  const headers = ['Allow', allow];
  if (exchange.method === 'OPTIONS') send(exchange, 204, null, headers);
  else sendRefusal(exchange, { code: 'METHOD_NOT_ALLOWED', detail: `This path accepts ${allow}.` }, headers);
}

function routeEntries(parts: Parts, route: Route): RouteEntry[] {
  const answer = makeOperationHandler(parts, route);
  const roots = basePathsOf(route);
  const { method, path: label } = route;
  const secret = route.secretHeaders !== undefined;
  return roots.map((root) => ({ method, path: root + label, root, label, secret, answer }));
}

const basePathsOf = ({ atRoot }: Route): readonly string[] =>
  atRoot === 'only' ? [''] : atRoot ? [...BASE_PATHS, ''] : BASE_PATHS;

function resourceEntries({ rateLimiter, addressOf }: Parts, resource: PublicResource): RouteEntry[] {
  const answer: ExchangeHandler = async (exchange, values) => {
    if (!resource.rateLimitExempt && !applyCharge(exchange, rateLimiter.chargeAnonymous(addressOf(exchange.request))))
      return;
    const { path, query, requestId } = exchange;
    const content = await resource.respond(values, { headers: exchange.request.headers, path, query, requestId });
    if (content === null) sendRefusal(exchange, NOT_FOUND);
    else if ('refusal' in content) sendRefusal(exchange, content.refusal);
    else send(exchange, content.status ?? 200, content, [...(content.headers ?? [])]);
  };
  const roots = resource.atRootAndVersioned ? [...BASE_PATHS, ''] : resource.versionedOnly ? BASE_PATHS : [''];
  return roots.map((root) => ({ method: 'GET', path: root + resource.path, root, label: resource.path, answer }));
}
