import type { IncomingMessage, ServerResponse } from 'node:http';
import express, { type Express, type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import type { HttpExchange, HttpExchangeLocals } from '../shared/http-exchange.ts';
import { pathParameters } from './input-reader.ts';
import type { Responder } from './responder.ts';
import type { RouteEntry } from './route-entry.ts';

type ExchangeResponse = Response<unknown, HttpExchangeLocals>;

/**
 * The Express application of the HTTP server: routes every path, answers methods that a path does not have and unknown
 * paths, and serves files. Operations that answer JSON are found by `fast-router.ts` first; here they have their paths.
 */
export function makeHttpApp({
  entries,
  consoleRoutes,
  responder,
}: {
  entries: readonly RouteEntry[];
  /** Routes of the operator console, with their complete paths; null if it is not served. */
  consoleRoutes: RequestHandler | null;
  responder: Responder;
}): (request: IncomingMessage, response: ServerResponse, exchange: HttpExchange) => void {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.disable('query parser');
  app.enable('case sensitive routing');

  if (consoleRoutes !== null) {
    // Not `use`, which would remove the segment from the URL.
    app.all(/^\/console(?:\/|$)/, (request, response: ExchangeResponse, next) =>
      responder.forward(response.locals.exchange, () => consoleRoutes(request, response, next)),
    );
  }
  for (const [path, methods] of byPath(entries)) addRoute(app, responder, path, methods);
  app.use((_request: Request, { locals }: ExchangeResponse) => responder.refusePath(locals.exchange));
  app.use((thrown: unknown, _request: Request, { locals }: ExchangeResponse, _next: NextFunction) =>
    responder.refuseThrown(locals.exchange, thrown),
  );
  return (request, response, exchange) => {
    const { path, query } = exchange;
    // Express would also route `ftp://host/path` and `/path#fragment` by their path, and answer 400 for a path that
    // cannot be decoded.
    if (!path.startsWith('/') || path.includes('#') || !isDecodable(path)) return responder.refusePath(exchange);
    // Without a host: Express would answer a target whose host it cannot parse before it calls any middleware.
    request.url = query === '' ? path : `${path}?${query}`;
    app(request, Object.assign(response, { locals: { exchange } satisfies HttpExchangeLocals }));
  };
}

function addRoute(app: Express, responder: Responder, path: string, entries: readonly RouteEntry[]): void {
  const names = pathParameters(path);
  const route = app.route(path.replace(/\{(\w+)\}/g, ':$1'));
  for (const entry of entries) {
    if (entries.find(({ method }) => method === entry.method) !== entry)
      throw new Error(`duplicate route ${entry.method} ${path}`);
    const verb = entry.method.toLowerCase() as Lowercase<RouteEntry['method']>;
    route[verb](({ params }: Request, { locals }: ExchangeResponse) =>
      responder.answer(
        locals.exchange,
        entry,
        names.map((name) => `${params[name]}`),
      ),
    );
  }
  const allow = allowOf(entries);
  route.all((_request, { locals }: ExchangeResponse) => responder.refuseMethod(locals.exchange, allow));
}

/**
 * The entries by path. Express takes the first route that matches, so paths with a literal segment come before those
 * with a `{…}` segment at its place.
 */
function byPath(entries: readonly RouteEntry[]): [string, RouteEntry[]][] {
  const key = (path: string): string => path.replaceAll('{', '\uffff');
  return [...Map.groupBy(entries, ({ path }) => path)].sort(([a], [b]) => (key(a) < key(b) ? -1 : 1));
}

function allowOf(entries: readonly RouteEntry[]): string {
  const methods: string[] = entries.map(({ method }) => method);
  if (methods.includes('GET')) methods.push('HEAD');
  return [...methods, 'OPTIONS'].join(', ');
}

function isDecodable(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}
