import { isObject } from '../../domain/json/value.ts';
import { done, type Refusal } from '../../domain/refusals.ts';
import type { JsonObject } from '../../domain/values.ts';
import { callerRefusal } from '../../operations/caller-authorization.ts';
import type { Perform, Performed } from '../../operations/perform.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { idempotencyKeyIn } from '../shared/http.ts';
import type { HttpAuthenticator } from '../shared/http-authenticator.ts';
import { applyCharge, type HttpExchange, send, sendJson, sendRefusal } from '../shared/http-exchange.ts';
import { preferredType } from '../shared/media-types.ts';
import { RequestCost, type RequestRateLimiter } from '../shared/rate-limiter.ts';
import { sendFile } from './file-response.ts';
import { makeInputReader, pathParameters } from './input-reader.ts';
import { acceptsIdempotencyKey, type Route } from './route.ts';
import { sendStream } from './stream-response.ts';
import { openUpload } from './upload.ts';

/** Handles an exchange. `values` are the texts of the path's `{…}` segments. */
export type ExchangeHandler = (exchange: HttpExchange, values: readonly string[], root: string) => Promise<void>;

export interface OperationHandlerParts {
  authenticator: HttpAuthenticator;
  perform: Perform;
  rateLimiter: RequestRateLimiter;
  addressOf: AddressOf;
  publicUrl?(): string;
}

/** Handler of a route: that of the operation which answers the request, by its credential and its `Accept`. */
export function makeOperationHandler(parts: OperationHandlerParts, route: Route): ExchangeHandler {
  const { withoutCredential, byMediaType = {}, ...own } = route;
  const usual = makeHandler(parts, own);
  if (withoutCredential !== undefined) {
    const unidentified = makeHandler(parts, { ...own, operation: withoutCredential.operation });
    const { authenticator } = parts;
    return (exchange, ...rest) =>
      (authenticator.hasCredential(exchange.request.headers) ? usual : unidentified)(exchange, ...rest);
  }
  const others = Object.entries(byMediaType).map(
    ([type, { operation, input }]) => [type, makeHandler(parts, { ...own, operation }, input)] as const,
  );
  if (others.length === 0) return usual;
  const handlers = new Map([['application/json', usual], ...others]);
  const types = [...handlers.keys()];
  return (exchange, ...rest) => {
    exchange.response.appendHeader('Vary', 'Accept');
    const type = preferredType(exchange.request.headers.accept, types);
    return (handlers.get(type ?? 'application/json') ?? usual)(exchange, ...rest);
  };
}

/** Authenticates, charges the rate limit, reads the input, performs the operation and sends the result. */
function makeHandler(
  parts: OperationHandlerParts,
  route: Omit<Route, 'withoutCredential' | 'byMediaType'>,
  fixed?: JsonObject,
): ExchangeHandler {
  const { authenticator, perform, rateLimiter, addressOf } = parts;
  const { operation, method, success } = route;
  const read = makeInputReader(route, fixed);
  const names = pathParameters(route.path);
  const authenticates = operation.role !== null || operation.optionalAuth === true;
  const keyable = acceptsIdempotencyKey(route);

  return async (exchange, values, root) => {
    const { request, requestId } = exchange;
    const address = addressOf(request);
    const origin = { via: 'rest', requestId, address };
    const isAnonymous = operation.role === null || !authenticator.hasCredential(request.headers);
    if (isAnonymous && !route.rateLimitExempt) {
      const charge = operation.signedByDevice
        ? rateLimiter.chargeSigned(address)
        : rateLimiter.chargeAnonymous(address);
      if (!applyCharge(exchange, charge)) return;
    }

    let auth = authenticates
      ? authenticator.authenticate(request.headers, origin)
      : authenticator.anonymous(request.headers, origin);
    if (auth instanceof Promise) auth = await auth;
    // An invalid credential is ignored if the operation needs no authentication.
    if (!auth.ok && operation.role === null) auth = await authenticator.anonymous(request.headers, origin);
    if (!auth.ok) {
      exchange.rateLimitHeaders = rateLimiter.signInRateHeaders(address);
      sendRefusal(exchange, auth.refusal);
      return;
    }
    const caller = auth.value;
    if (!isAnonymous) {
      let charge = rateLimiter.chargeCaller(caller, address);
      if (charge instanceof Promise) charge = await charge;
      if (!applyCharge(exchange, charge)) return;
    }
    // Before the body is read. The refused attempt is passed to `perform` for the audit.
    const csrf = operation.changes && caller.cookie ? await authenticator.csrfRefusal(request.headers, caller) : null;
    const refused = csrf ?? callerRefusal(operation, caller);
    if (refused !== null) {
      const input = Object.fromEntries(names.map((name, n) => [name, values[n]]));
      await perform(operation, { input, caller, keyed: null, edgeRefusal: refused.refusal });
      sendRefusal(exchange, refused.refusal);
      return;
    }

    let input = read(request, values, exchange.query);
    if (input instanceof Promise) input = await input;
    if (!input.ok) {
      sendRefusal(exchange, input.refusal);
      return;
    }
    const unsigned = operation.signedByDevice ? unsignedRefusal(input.value, rateLimiter.signInRefusal(address)) : null;
    if (unsigned !== null) {
      sendRefusal(exchange, unsigned);
      return;
    }
    const key = keyable ? idempotencyKeyIn(request.headers) : NO_KEY;
    if (!key.ok) {
      sendRefusal(exchange, key.refusal);
      return;
    }
    const path = trimmed(exchange.path.slice(root.length));
    const keyed = key.value === null ? null : { key: key.value, method, path, body: input.value };
    const upload = operation.upload === undefined ? NO_UPLOAD : openUpload(request, operation.upload);
    let isCharged = false;
    const { charge } = new RequestCost(rateLimiter, { caller, address }, (headers) => {
      exchange.rateLimitHeaders = headers;
      isCharged = true;
    });
    const outcome = upload.ok
      ? await perform(operation, { input: input.value, caller, keyed, upload: upload.value, charge })
      : upload;
    if (outcome.ok && outcome.value.file !== undefined)
      await sendFile(exchange, operation.download, outcome.value.file);
    else if (outcome.ok && outcome.value.stream !== undefined) await sendStream(exchange, outcome.value.stream);
    else if (outcome.ok)
      sendResult(exchange, success, outcome.value, { authenticator, publicUrl: parts.publicUrl?.() ?? '' });
    else if (isForged(operation, outcome.refusal)) {
      const limited = rateLimiter.recordFailedSignIn(address);
      exchange.rateLimitHeaders = rateLimiter.signInRateHeaders(address);
      sendRefusal(exchange, limited ?? outcome.refusal);
    } else {
      // The operation verified a credential in the body, which counts as a sign-in attempt.
      if (outcome.refusal.code === 'RATE_LIMIT_EXCEEDED' && !isCharged)
        exchange.rateLimitHeaders = rateLimiter.signInRateHeaders(address);
      sendRefusal(exchange, outcome.refusal);
    }
  };
}

const MISSING_CREDENTIAL: Refusal = {
  code: 'UNAUTHENTICATED',
  detail: 'A valid bearer token or API key is required.',
};

/** The refusal of a body without a signature, which is a request without a credential, or of too many failed ones. */
const unsignedRefusal = (body: JsonObject, limited: Refusal | null): Refusal | null =>
  Object.hasOwn(body, 'signature') ? limited : MISSING_CREDENTIAL;

/** Whether the body was to be signed, and was not by the device. */
const isForged = ({ signedByDevice }: Route['operation'], { code, isVerified }: Refusal): boolean =>
  signedByDevice === true && code === 'UNAUTHENTICATED' && isVerified !== true;

const NO_UPLOAD = done(null);
const NO_KEY = done(null);

const trimmed = (path: string): string => (path.endsWith('/') ? path.slice(0, -1) : path);

function sendResult(
  exchange: HttpExchange,
  success: number,
  result: Performed,
  { authenticator, publicUrl }: { authenticator: HttpAuthenticator; publicUrl: string },
): void {
  const status = result.status ?? success;
  const headers = result.replayed ? ['Idempotent-Replayed', 'true'] : [];
  if (result.next) headers.push('Link', `<${nextPage(publicUrl, exchange, result.next)}>; rel="next"`);
  if (typeof result.total === 'number') headers.push('X-Total-Count', `${result.total}`);
  if (result.etag !== undefined) {
    headers.push('ETag', result.etag);
  }
  if (result.etag !== undefined && isUnchanged(exchange, result.etag)) {
    send(exchange, 304, null, headers);
    return;
  }
  for (const change of result.cookies ?? []) headers.push(...authenticator.cookies.set(change));
  if (status === 204) {
    send(exchange, status, null, headers);
  } else if (status === 409 && isObject(result.body)) {
    // The only 409 with a result: the dry run of a critical action (contract §2).
    const { requestId: request_id } = exchange;
    sendJson(exchange, status, { ...result.body, code: 'DRY_RUN_REQUIRED', request_id }, headers);
  } else {
    sendJson(exchange, status, result.body, headers);
  }
}

/** Whether the client has this representation (RFC 9110 §13.1.2, which compares weakly). */
function isUnchanged({ method, request }: HttpExchange, etag: string): boolean {
  const known = request.headers['if-none-match'];
  if (known === undefined || (method !== 'GET' && method !== 'HEAD')) return false;
  return known.trim() === '*' || known.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag);
}

/** URL of the same request with another cursor. */
function nextPage(publicUrl: string, { path, query }: HttpExchange, cursor: string): string {
  const kept = query.split('&').filter((part) => part !== '' && !part.startsWith('cursor='));
  return `${publicUrl}${path}?${[...kept, `cursor=${encodeURIComponent(cursor)}`].join('&')}`;
}
