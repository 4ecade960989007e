import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Log } from '../../domain/log.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import { SERVICE_VERSION } from '../../operations/platform/system.ts';
import type { BuiltFiles } from '../shared/built-files.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { problemOf, refusalHeaders, requestIdOf, standardHeaders } from '../shared/http.ts';
import type { Content } from '../shared/http-exchange.ts';
import type { RateLimiter } from '../shared/rate-limiter.ts';

export interface ConsoleParts {
  /** Build output of `console/`. */
  files: BuiltFiles;
  rateLimiter: Pick<RateLimiter, 'chargeAnonymous'>;
  addressOf: AddressOf;
  /** Path of the service's URL, without a trailing slash. */
  prefix(): string;
  /** Whether an identity provider is configured. */
  provider: boolean;
  newId(): Uuid;
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

/** HTTP listener for `/console`: serves the build output of `console/`, and the page for every path that it routes itself. */
export function makeConsoleListener(parts: ConsoleParts): RequestListener {
  const { rateLimiter, addressOf, log, newId } = parts;
  return (request, response) => {
    const exchange: ConsoleExchange = {
      request,
      response,
      requestId: requestIdOf(request.headers, newId),
      rateLimitHeaders: [],
    };
    const { refusal, headers } = rateLimiter.chargeAnonymous(addressOf(request));
    exchange.rateLimitHeaders = headers;
    if (refusal !== null) return refuse(exchange, refusal);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return refuse(exchange, { code: 'METHOD_NOT_ALLOWED', detail: 'This path accepts GET, HEAD.' }, [
        'Allow',
        'GET, HEAD',
      ]);
    }
    serve(parts, exchange).catch((thrown: unknown) => {
      refuse(exchange, refusalOf(thrown, log, { request_id: exchange.requestId }));
    });
  };
}

interface ConsoleExchange {
  request: IncomingMessage;
  response: ServerResponse;
  requestId: Uuid;
  rateLimitHeaders: readonly string[];
}

const pathOf = ({ url = '/' }: IncomingMessage): string =>
  url.replace(/^https?:\/\/[^/?]*(?=\/)/i, '').split('?', 1)[0] as string;

async function serve(parts: ConsoleParts, exchange: ConsoleExchange): Promise<void> {
  const file = pathOf(exchange.request).replace(/^\/console\/?/, '');
  if (file === 'about.json') return about(parts, exchange);
  if (file.startsWith('assets/')) return asset(parts, exchange, file.slice('assets/'.length));
  const page = await parts.files.page('index');
  if (page === null) return send(exchange, 503, { type: HTML, body: NOT_BUILT, cache: 'no-store' });
  // The page is served at paths of any depth, so its assets are referenced from the root.
  const body = Buffer.from(page.replaceAll('"./assets/', `"${parts.prefix()}/console/assets/`));
  send(exchange, 200, { type: HTML, body, cache: 'no-cache' });
}

/** Facts that the console needs before sign-in. */
function about({ provider }: ConsoleParts, exchange: ConsoleExchange): void {
  const body = Buffer.from(JSON.stringify({ version: SERVICE_VERSION, identity_provider: provider }));
  send(exchange, 200, { type: 'application/json', body, cache: 'no-store' });
}

async function asset({ files }: ConsoleParts, exchange: ConsoleExchange, name: string): Promise<void> {
  const content = await files.asset(name, `${exchange.request.headers['accept-encoding'] ?? ''}`);
  if (content === null) return refuse(exchange, { code: 'NOT_FOUND', detail: 'There is nothing at this path.' });
  send(exchange, 200, content);
}

const HTML = 'text/html; charset=utf-8';

function send(
  exchange: ConsoleExchange,
  status: number,
  { type, body, cache = 'no-store', headers: contentHeaders = [] }: Content,
  headers: readonly string[] = [],
): void {
  const { response, request, requestId, rateLimitHeaders } = exchange;
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, [
    ...standardHeaders(requestId),
    ...['Content-Security-Policy', POLICY, 'Cross-Origin-Opener-Policy', 'same-origin', 'Cache-Control', cache],
    ...['Content-Type', type, 'Content-Length', `${Buffer.byteLength(body)}`],
    ...rateLimitHeaders,
    ...contentHeaders,
    ...headers,
  ]);
  response.end(request.method === 'HEAD' ? undefined : body);
}

function refuse(exchange: ConsoleExchange, refusal: Refusal, headers: readonly string[] = []): void {
  const problem = problemOf(refusal, pathOf(exchange.request), exchange.requestId);
  const content = { type: 'application/problem+json', body: Buffer.from(JSON.stringify(problem)), cache: 'no-store' };
  send(exchange, problem.status, content, [...refusalHeaders(refusal, false), ...headers]);
}
