import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Log } from '../../domain/log.ts';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import { SERVICE_VERSION } from '../../operations/platform/system.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { problemOf, refusalHeaders, requestIdOf, standardHeaders } from '../shared/http.ts';
import type { RateLimiter } from '../shared/rate-limiter.ts';
import type { ConsoleFiles } from './console-files.ts';

export interface ConsoleParts {
  files: ConsoleFiles;
  gate: Pick<RateLimiter, 'chargeAnonymous'>;
  addressOf: AddressOf;
  /** The path of the service's URL, without a slash at the end. */
  prefix(): string;
  /** Whether people can sign in at an identity provider. */
  provider: boolean;
  newId(): Uuid;
  log: Log;
}

/** Nothing inline, nothing evaluated, nothing from elsewhere, in nobody's frame. */
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

const IMMUTABLE_CACHE = 'public, max-age=31536000, immutable';

const NOT_BUILT = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Twinkeep console</title>
<main><h1>The console is not built</h1>
<p>In a checkout <code>npm run build:console</code> builds it; <code>npm start</code> and <code>npm run demo</code> do so by themselves.</p>
</main></html>
`;

/** `/console`: files that were built from `console/`, and the same page for all the paths that it draws itself. */
export function makeConsoleListener(parts: ConsoleParts): RequestListener {
  const { gate, addressOf, log, newId } = parts;
  return (request, response) => {
    const answer: ConsoleExchange = {
      request,
      response,
      requestId: requestIdOf(request.headers, newId),
      rateLimitHeaders: [],
    };
    const { refusal, headers } = gate.chargeAnonymous(addressOf(request));
    answer.rateLimitHeaders = headers;
    if (refusal !== null) return refuse(answer, refusal);
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return refuse(answer, { code: 'METHOD_NOT_ALLOWED', detail: 'This path takes GET.' }, ['Allow', 'GET, HEAD']);
    }
    serve(parts, answer).catch((thrown: unknown) => {
      refuse(answer, refusalOf(thrown, log, { request_id: answer.requestId }));
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

async function serve(parts: ConsoleParts, answer: ConsoleExchange): Promise<void> {
  const within = pathOf(answer.request).replace(/^\/console\/?/, '');
  if (within === 'about.json') return about(parts, answer);
  if (within.startsWith('assets/')) return asset(parts, answer, within.slice('assets/'.length));
  const page = await parts.files.page();
  if (page === null) return send(answer, 503, { type: HTML, body: Buffer.from(NOT_BUILT), cache: 'no-store' });
  // The page is the same wherever it is asked for, so what it loads is named from the root.
  const body = Buffer.from(page.replaceAll('"./assets/', `"${parts.prefix()}/console/assets/`));
  send(answer, 200, { type: HTML, body, cache: 'no-cache' });
}

/** What the console cannot know before anybody has signed in. */
function about({ provider }: ConsoleParts, answer: ConsoleExchange): void {
  const body = Buffer.from(JSON.stringify({ version: SERVICE_VERSION, identity_provider: provider }));
  send(answer, 200, { type: 'application/json', body, cache: 'no-store' });
}

async function asset({ files }: ConsoleParts, answer: ConsoleExchange, name: string): Promise<void> {
  const file = await files.asset(name);
  if (file === null) return refuse(answer, { code: 'NOT_FOUND', detail: 'There is nothing at this path.' });
  const { type } = file;
  const zipped = acceptsGzip(answer.request) ? await file.gzipped() : null;
  const more = ['Vary', 'Accept-Encoding', ...(zipped === null ? [] : ['Content-Encoding', 'gzip'])];
  send(answer, 200, { type, body: zipped ?? file.body, cache: IMMUTABLE_CACHE }, more);
}

const HTML = 'text/html; charset=utf-8';

const acceptsGzip = ({ headers }: IncomingMessage): boolean =>
  /(^|,)\s*(gzip|\*)\s*(;\s*q=(?!0(\.0*)?\s*(,|$))[^,]*)?(,|$)/i.test(`${headers['accept-encoding'] ?? ''}`);

interface ResponseContent {
  type: string;
  body: Buffer;
  cache: string;
}

function send(
  answer: ConsoleExchange,
  status: number,
  { type, body, cache }: ResponseContent,
  more: readonly string[] = [],
): void {
  const { response, request, requestId, rateLimitHeaders } = answer;
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, [
    ...standardHeaders(requestId),
    ...['Content-Security-Policy', POLICY, 'Cross-Origin-Opener-Policy', 'same-origin', 'Cache-Control', cache],
    ...['Content-Type', type, 'Content-Length', `${body.length}`],
    ...rateLimitHeaders,
    ...more,
  ]);
  response.end(request.method === 'HEAD' ? undefined : body);
}

function refuse(answer: ConsoleExchange, refusal: Refusal, more: readonly string[] = []): void {
  const problem = problemOf(refusal, pathOf(answer.request), answer.requestId);
  const sent = { type: 'application/problem+json', body: Buffer.from(JSON.stringify(problem)), cache: 'no-store' };
  send(answer, problem.status, sent, [...refusalHeaders(refusal, false), ...more]);
}
