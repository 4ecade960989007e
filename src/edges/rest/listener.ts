import type { RequestListener } from 'node:http';
import type { RequestHandler } from 'express';
import type { Perform } from '../../operations/perform.ts';
import type { HttpAuthenticator } from '../shared/http-authenticator.ts';
import { httpExchangeOf } from '../shared/http-exchange.ts';
import { makeFastRouter } from './fast-router.ts';
import { makeHttpApp } from './http-app.ts';
import type { PublicResource } from './public-resource.ts';
import { Responder, type ResponderParts } from './responder.ts';
import type { Route } from './route.ts';
import { operationEntries, resourceEntries } from './route-entry.ts';

export interface RestParts extends ResponderParts {
  routes: readonly Route[];
  resources: readonly PublicResource[];
  authenticator: HttpAuthenticator;
  perform: Perform;
  /** Base URL for clients, without a trailing slash; if empty, links are relative. */
  publicUrl?(): string;
  /** Other edges by their first path segment: `graphql`, `mcp`. */
  mounts?: Readonly<Record<string, RequestListener>>;
  /** Routes of the operator console, with their complete paths. */
  consoleRoutes?: RequestHandler;
}

/**
 * Request listener of the HTTP server. Hot paths go past Express: operations that answer JSON by `fast-router.ts`, and
 * GraphQL and MCP, which have one path each and route nothing. Express answers everything else.
 */
export function makeRestListener(parts: RestParts): RequestListener {
  const responder = new Responder(parts);
  // A download needs the request of Express, which has to route it.
  const { fast = [], download = [] } = Object.groupBy(parts.routes, ({ operation }) =>
    operation.download === undefined ? 'fast' : 'download',
  );
  const fastEntries = fast.flatMap((route) => operationEntries(parts, route));
  const entries = [
    ...fastEntries,
    ...download.flatMap((route) => operationEntries(parts, route)),
    ...parts.resources.flatMap((resource) => resourceEntries(parts, resource)),
  ];
  const fastRouter = makeFastRouter(fastEntries);
  const app = makeHttpApp({ entries, consoleRoutes: parts.consoleRoutes ?? null, responder });
  const mounts = new Map(Object.entries(parts.mounts ?? {}));
  const exchangeParts = { newId: parts.newId, isLast: parts.draining };
  return (request, response) => {
    const exchange = httpExchangeOf(request, response, exchangeParts);
    const found = fastRouter.find(exchange.method, exchange.path);
    if (found !== null) return responder.answer(exchange, found.entry, found.values);
    const mount = mounts.get(exchange.path.split('/', 2)[1] ?? '');
    if (mount !== undefined) return responder.forward(exchange, () => mount(request, response));
    app(request, response, exchange);
  };
}
