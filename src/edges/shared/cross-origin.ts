import type { RequestListener } from 'node:http';

/*
 * Cross-origin resource sharing (https://fetch.spec.whatwg.org/#http-cors-protocol) for REST and GraphQL. Without
 * `Access-Control-Allow-Credentials`, pages of other origins send no cookies that count, and use a token or an API key.
 */

/** Everything below the base paths, GraphQL, and the public resources at the root; no pages, no MCP, no sign-in. */
const SHARED_PATHS =
  /^\/(?:(?:api\/)?v1\/|graphql\/?$|(?:health(?:\/live|\/ready)?|status|version|changelog|openapi\.json|asyncapi\.json|\.well-known\/jwks\.json)$)/;

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const REQUEST_HEADERS = [
  ...['Authorization', 'Content-Type', 'Idempotency-Key', 'If-Match', 'If-None-Match', 'Range'],
  ...['X-API-Key', 'X-Request-ID'],
].join(', ');
const EXPOSED_HEADERS = [
  ...['Content-Disposition', 'Content-Range', 'ETag', 'Idempotent-Replayed', 'Link', 'RateLimit', 'RateLimit-Policy'],
  ...['Retry-After', 'WWW-Authenticate', 'X-API-Version', 'X-Protocol-Version', 'X-Request-ID', 'X-Total-Count'],
].join(', ');
/** Seconds for which a browser keeps the answer to a preflight. */
const PREFLIGHT_AGE_S = '600';

/** Adds the headers of the protocol for these origins, which are compared byte by byte, to the listener's answers. */
export function withCrossOrigin(listener: RequestListener, origins: readonly string[]): RequestListener {
  const allowed: ReadonlySet<string> = new Set(origins);
  return (request, response) => {
    const [path = ''] = (request.url ?? '').split('?', 1);
    if (!SHARED_PATHS.test(path)) return listener(request, response);
    // Also without an origin: a cache must not answer a page with it.
    response.setHeader('Vary', 'Origin');
    const { origin } = request.headers;
    if (origin === undefined || !allowed.has(origin)) return listener(request, response);
    response.setHeader('Access-Control-Allow-Origin', origin);
    if (request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined) {
      response.setHeader('Access-Control-Allow-Methods', METHODS);
      response.setHeader('Access-Control-Allow-Headers', REQUEST_HEADERS);
      response.setHeader('Access-Control-Max-Age', PREFLIGHT_AGE_S);
      // Here, as it costs nothing: a page would see the 429 of a limit as a failure of the protocol.
      response.writeHead(204).end();
      return;
    }
    response.setHeader('Access-Control-Expose-Headers', EXPOSED_HEADERS);
    return listener(request, response);
  };
}
