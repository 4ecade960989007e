import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import express from 'express';
import { isObject } from '../../domain/json-size.ts';
import type { Log } from '../../domain/log.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import type { Perform, Performed } from '../../operations/perform.ts';
import { credentialIn, requestIdOf } from '../shared/http.ts';
import type { Identity } from '../shared/identity.ts';
import { Aborted } from './body.ts';
import { type Exchange, send, sendJson, sendRefusal } from './exchange.ts';
import { type InputReader, makeInputReader } from './input.ts';
import type { Page } from './page.ts';
import type { Route } from './route.ts';
import { makeRouter } from './router.ts';

export interface RestParts {
  routes: readonly Route[];
  pages: readonly Page[];
  identity: Identity;
  perform: Perform;
  newId(): Uuid;
  log: Log;
  /** Addresses or ranges whose `X-Forwarded-*` counts. */
  trustedProxies: readonly string[];
  /** Told of each answer: the route's pattern, never the path. */
  observe(route: string, method: string, status: number, milliseconds: number): void;
  /** True from SIGTERM on: new work is refused, health goes on. */
  draining(): boolean;
  /** Other edges by their first path segment: `graphql`, `mcp`, `console`. */
  mounts?: Readonly<Record<string, RequestListener>>;
}

interface Entry {
  method: string;
  path: string;
  /** The pattern without its root, for metrics. */
  label: string;
  serve: (exchange: Exchange, values: readonly string[]) => void | Promise<void>;
  whileDraining: boolean;
}

/**
 * The request listener of the HTTP server. Express carries one handler: each step of a chain costs every request, and
 * the routes are a table that is looked up, not tried.
 */
export function makeRest(parts: RestParts): RequestListener {
  const router = makeRouter(entriesOf(parts));
  const app = express();
  app.disable('x-powered-by');
  app.set('etag', false);
  app.set('query parser', false);
  app.set('trust proxy', parts.trustedProxies.length > 0 ? [...parts.trustedProxies] : false);

  app.use((request: IncomingMessage, response: ServerResponse) => {
    const url = request.url ?? '/';
    const question = url.indexOf('?');
    const path = question === -1 ? url : url.slice(0, question);
    const query = question === -1 ? '' : url.slice(question + 1);
    const requestId = requestIdOf(request.headers, parts.newId);
    const exchange: Exchange = { request, response, requestId, path, query };
    const mount = parts.mounts?.[path.split('/', 2)[1] ?? ''];
    if (mount !== undefined) return void mount(request, response);

    const method = request.method ?? 'GET';
    const started = performance.now();
    const found = router.find(method, path);
    const entry = found !== null && 'entry' in found ? found.entry : null;
    response.on('finish', () => {
      const took = performance.now() - started;
      parts.observe(entry?.label ?? 'none', method, response.statusCode, took);
      parts.log.debug({ request_id: requestId, method, path, status: response.statusCode, ms: took }, 'answered');
    });
    if (entry === null || found === null || !('entry' in found)) return unserved(exchange, method, found);
    if (parts.draining() && !entry.whileDraining) return sendRefusal(exchange, DRAINING, ['Connection', 'close']);
    try {
      entry.serve(exchange, found.values)?.catch((thrown) => failed(exchange, thrown, parts.log));
    } catch (thrown) {
      failed(exchange, thrown, parts.log);
    }
  });
  return app;
}

const DRAINING: Refusal = { code: 'OVERLOADED', detail: 'This process is shutting down.', retryAfterS: 1 };
const NOWHERE: Refusal = { code: 'NOT_FOUND', detail: 'There is nothing at this path.' };

function unserved(exchange: Exchange, method: string, found: { allow: string } | { entry: Entry } | null): void {
  if (found === null || !('allow' in found)) return sendRefusal(exchange, NOWHERE);
  const allow = ['Allow', found.allow];
  if (method === 'OPTIONS') return send(exchange, 204, null, allow);
  sendRefusal(exchange, { code: 'METHOD_NOT_ALLOWED', detail: `This path takes ${found.allow}.` }, allow);
}

function failed(exchange: Exchange, thrown: unknown, log: Log): void {
  if (thrown instanceof Aborted) return;
  sendRefusal(exchange, refusalOf(thrown, log, { request_id: exchange.requestId }));
}

export const ROOTS = ['/v1', '/api/v1'] as const;

function entriesOf(parts: RestParts): Entry[] {
  const routes = parts.routes.flatMap((route) => {
    const serve = serveOperation(parts, route, makeInputReader(route));
    const roots = route.atRoot ? [...ROOTS, ''] : ROOTS;
    return roots.map((root) => ({
      method: route.method,
      path: `${root}${route.path}`,
      label: route.path,
      whileDraining: route.path.startsWith('/health'),
      serve: (exchange: Exchange, values: readonly string[]) => serve(exchange, values, root.length),
    }));
  });
  const pages = parts.pages.flatMap((page) =>
    (page.under ?? ['']).map((root) => ({
      method: 'GET',
      path: `${root}${page.path}`,
      label: page.path,
      whileDraining: true,
      serve: async (exchange: Exchange, values: readonly string[]) => {
        const content = await page.content(values);
        if (content === null) sendRefusal(exchange, NOWHERE);
        else send(exchange, 200, content);
      },
    })),
  );
  return [...routes, ...pages];
}

function serveOperation({ identity, perform }: RestParts, { operation, method, success }: Route, read: InputReader) {
  const known = operation.role !== null || operation.greets === true;
  const keyable = method === 'POST' && operation.changes;

  return async (exchange: Exchange, values: readonly string[], rootLength: number): Promise<void> => {
    const { request, requestId } = exchange;
    const asking = { via: 'rest', requestId };
    let who = identity.authenticate(known ? credentialIn(request.headers) : null, asking);
    if (who instanceof Promise) who = await who;
    if (!who.ok && operation.role === null) who = await identity.authenticate(null, asking);
    if (!who.ok) return sendRefusal(exchange, who.refusal);
    const caller = who.value;

    let input = read(request, values, exchange.query);
    if (input instanceof Promise) input = await input;
    if (!input.ok) return sendRefusal(exchange, input.refusal);
    const key = keyable ? request.headers['idempotency-key'] : undefined;
    if (key !== undefined && !isKey(key)) return sendRefusal(exchange, BAD_KEY);
    const keyed = key === undefined ? null : { key, method, path: exchange.path.slice(rootLength), body: input.value };
    const outcome = await perform(operation, { input: input.value, caller, keyed });
    if (outcome.ok) sendAnswer(exchange, success, outcome.value);
    else sendRefusal(exchange, outcome.refusal);
  };
}

const isKey = (key: string | string[]): key is string => typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key);

const BAD_KEY: Refusal = {
  code: 'VALIDATION_FAILED',
  detail: 'An Idempotency-Key is 1 to 255 visible ASCII characters.',
  errors: [{ path: 'Idempotency-Key', message: 'must be 1 to 255 visible ASCII characters' }],
};

function sendAnswer(exchange: Exchange, success: number, answer: Performed): void {
  const status = answer.status ?? success;
  const headers = answer.replayed ? ['Idempotent-Replayed', 'true'] : [];
  if (status === 204) return send(exchange, status, null, headers);
  // The one conflict that is an answer: a critical action's dry run (contract §2).
  const body =
    status === 409 && isObject(answer.body)
      ? { ...answer.body, code: 'DRY_RUN_REQUIRED', request_id: exchange.requestId }
      : answer.body;
  sendJson(exchange, status, body, headers);
}
