import type { Refusal } from '../../domain/refusals.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { applyCharge, send, sendRefusal } from '../shared/http-exchange.ts';
import type { RequestRateLimiter } from '../shared/rate-limiter.ts';
import { type ExchangeHandler, makeOperationHandler, type OperationHandlerParts } from './operation-handler.ts';
import type { PublicResource } from './public-resource.ts';
import { BASE_PATHS, type Route } from './route.ts';

/** One method of one complete path, and what answers it. */
export interface RouteEntry {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With the base path. `{name}` stands for any segment. */
  path: string;
  /** The base path; empty for a path at the root. */
  root: string;
  /** The pattern without its base path, for metrics. */
  label: string;
  /** The path contains a secret and must not be logged. */
  secret?: boolean;
  answer: ExchangeHandler;
}

/** Answer to a path that has no resource. */
export const NOT_FOUND: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };

/** The entries of an operation's route, one for each base path. */
export function operationEntries(parts: OperationHandlerParts, route: Route): RouteEntry[] {
  const answer = makeOperationHandler(parts, route);
  const { method, path: label, atRoot } = route;
  const roots = atRoot === 'only' ? [''] : atRoot ? [...BASE_PATHS, ''] : BASE_PATHS;
  const secret = route.secretHeaders !== undefined;
  return roots.map((root) => ({ method, path: root + label, root, label, secret, answer }));
}

/** The entries of a public resource, one for each base path. */
export function resourceEntries(
  { rateLimiter, addressOf }: { rateLimiter: RequestRateLimiter; addressOf: AddressOf },
  resource: PublicResource,
): RouteEntry[] {
  const answer: ExchangeHandler = async (exchange, values) => {
    const { path, query, requestId, request } = exchange;
    const address = addressOf(request);
    if (!resource.rateLimitExempt && !applyCharge(exchange, rateLimiter.chargeAnonymous(address))) return;
    const content = await resource.respond(values, { headers: request.headers, path, query, requestId, address });
    if (content === null) sendRefusal(exchange, NOT_FOUND);
    else if ('refusal' in content) sendRefusal(exchange, content.refusal);
    else send(exchange, content.status ?? 200, content, [...(content.headers ?? [])]);
  };
  const roots = resource.atRootAndVersioned ? [...BASE_PATHS, ''] : resource.versionedOnly ? BASE_PATHS : [''];
  return roots.map((root) => ({ method: 'GET', path: root + resource.path, root, label: resource.path, answer }));
}
