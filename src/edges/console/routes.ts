import express, { type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import type { Log } from '../../domain/log.ts';
import type { Refusal } from '../../domain/refusals.ts';
import { refusalOf } from '../../operations/faults.ts';
import { SERVICE_VERSION } from '../../operations/platform/system.ts';
import type { BuiltFiles } from '../shared/built-files.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { type Content, type HttpExchange, type HttpExchangeLocals, send } from '../shared/http-exchange.ts';
import { problemOf, refusalHeaders } from '../shared/problem-details.ts';
import type { RequestRateLimiter } from '../shared/rate-limiter.ts';

export interface ConsoleParts {
  /** Build output of `console/`. */
  files: BuiltFiles;
  rateLimiter: Pick<RequestRateLimiter, 'chargeAnonymous'>;
  addressOf: AddressOf;
  /** Path of the service's URL, without a trailing slash. */
  prefix(): string;
  /** Whether an identity provider is configured. */
  provider: boolean;
  log: Log;
}

/** Forbids inline and evaluated code, other origins, and framing. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "worker-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const NOT_BUILT = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Twinkeep console</title>
<main><h1>The console is not built</h1>
<p>In a checkout, run <code>npm run build:pages</code>. <code>npm start</code> and <code>npm run demo</code> build it automatically.</p>
</main></html>
`;

type ConsoleResponse = Response<unknown, HttpExchangeLocals>;

/** Express routes of `/console`: the build output of `console/`, and its page for every path that it routes itself. */
export function makeConsoleRoutes(parts: ConsoleParts): RequestHandler {
  const { rateLimiter, addressOf, log } = parts;
  const router = express.Router({ caseSensitive: true, strict: true });
  router.use((request: Request, { locals: { exchange } }: ConsoleResponse, next: NextFunction) => {
    const { refusal, headers } = rateLimiter.chargeAnonymous(addressOf(request));
    exchange.rateLimitHeaders = headers;
    if (refusal === null) next();
    else refuse(exchange, refusal);
  });
  router.get('/console/about.json', (_request, { locals }: ConsoleResponse) => about(parts, locals.exchange));
  router.get(/^\/console\/assets\//, (_request, { locals }: ConsoleResponse) => asset(parts, locals.exchange));
  router.get(/^/, (_request, { locals }: ConsoleResponse) => page(parts, locals.exchange));
  router.use((_request: Request, { locals }: ConsoleResponse) =>
    refuse(locals.exchange, WRONG_METHOD, ['Allow', ALLOW]),
  );
  router.use((thrown: unknown, _request: Request, { locals: { exchange } }: ConsoleResponse, _next: NextFunction) =>
    refuse(exchange, refusalOf(thrown, log, { request_id: exchange.requestId })),
  );
  return router;
}

const ALLOW = 'GET, HEAD';
const WRONG_METHOD: Refusal = { code: 'METHOD_NOT_ALLOWED', detail: `This path accepts ${ALLOW}.` };
const HTML = 'text/html; charset=utf-8';

async function page({ files, prefix }: ConsoleParts, exchange: HttpExchange): Promise<void> {
  const built = await files.page('index');
  if (built === null) return respond(exchange, 503, { type: HTML, body: NOT_BUILT });
  // The page is served at paths of any depth, so its assets are referenced from the root.
  const body = built.replaceAll('"./assets/', `"${prefix()}/console/assets/`);
  respond(exchange, 200, { type: HTML, body, cache: 'no-cache' });
}

/** Facts that the console needs before sign-in. */
function about({ provider }: ConsoleParts, exchange: HttpExchange): void {
  const body = JSON.stringify({ version: SERVICE_VERSION, identity_provider: provider });
  respond(exchange, 200, { type: 'application/json', body });
}

async function asset({ files }: ConsoleParts, exchange: HttpExchange): Promise<void> {
  const name = exchange.path.slice('/console/assets/'.length);
  const content = await files.asset(name, `${exchange.request.headers['accept-encoding'] ?? ''}`);
  if (content === null) refuse(exchange, { code: 'NOT_FOUND', detail: 'There is nothing at this path.' });
  else respond(exchange, 200, content);
}

function respond(exchange: HttpExchange, status: number, content: Content, headers: readonly string[] = []): void {
  const isolation = ['Cross-Origin-Opener-Policy', 'same-origin'];
  send(exchange, status, { ...content, policy: POLICY }, [...isolation, ...(content.headers ?? []), ...headers]);
}

function refuse(exchange: HttpExchange, refusal: Refusal, headers: readonly string[] = []): void {
  const problem = problemOf(refusal, exchange.path, exchange.requestId);
  const content = { type: 'application/problem+json', body: JSON.stringify(problem) };
  respond(exchange, problem.status, content, [...refusalHeaders(refusal, false), ...headers]);
}
