import { isObject } from '../../domain/json/value.ts';
import { done } from '../../domain/refusals.ts';
import { callerRefusal, type Perform, type Performed } from '../../operations/perform.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { applyCharge, type Exchange, send, sendJson, sendRefusal } from '../shared/exchange.ts';
import { idempotencyKeyIn } from '../shared/http.ts';
import type { HttpAuthenticator } from '../shared/http-authenticator.ts';
import type { RateLimiter } from '../shared/rate-limiter.ts';
import { sendFile } from './file-response.ts';
import { makeInputReader, pathParameters } from './input-reader.ts';
import { acceptsIdempotencyKey, type Route } from './route.ts';
import { openUpload } from './upload.ts';

/** Answers an exchange. `values` are the texts of the path's `{…}` segments. */
export type ExchangeHandler = (exchange: Exchange, values: readonly string[], root: string) => Promise<void>;

/** From a request to the operation of its route and back. May throw what `refusalOf` knows. */
export function makeOperationHandler(
  parts: { door: HttpAuthenticator; perform: Perform; gate: RateLimiter; addressOf: AddressOf; publicUrl?(): string },
  route: Route,
): ExchangeHandler {
  const { door, perform, gate, addressOf } = parts;
  const { operation, method, success } = route;
  const read = makeInputReader(route);
  const names = pathParameters(route.path);
  const looksAtCaller = operation.role !== null || operation.optionalAuth === true;
  const keyable = acceptsIdempotencyKey(route);

  return async (exchange, values, root) => {
    const { request, requestId } = exchange;
    const address = addressOf(request);
    const asking = { via: 'rest', requestId, address };
    const isStranger = operation.role === null || !door.hasCredential(request.headers);
    if (isStranger && !route.rateLimitExempt && !applyCharge(exchange, gate.chargeAnonymous(address))) return;

    let who = looksAtCaller ? door.authenticate(request.headers, asking) : door.anonymous(request.headers, asking);
    if (who instanceof Promise) who = await who;
    // Where nobody is needed a bad credential does no harm.
    if (!who.ok && operation.role === null) who = await door.anonymous(request.headers, asking);
    if (!who.ok) {
      exchange.rateLimitHeaders = gate.signInRateHeaders(address);
      sendRefusal(exchange, who.refusal);
      return;
    }
    if (!isStranger) {
      let charge = gate.chargeCaller(who.value, address);
      if (charge instanceof Promise) charge = await charge;
      if (!applyCharge(exchange, charge)) return;
    }
    // Before anything is read of what nobody asked this caller for.
    const forged = operation.changes && who.value.cookie ? await door.csrfRefusal(request.headers, who.value) : null;
    const barred = forged ?? callerRefusal(operation, who.value);
    if (barred !== null) {
      const input = Object.fromEntries(names.map((name, n) => [name, values[n]]));
      await perform(operation, { input, caller: who.value, keyed: null, barred: barred.refusal });
      sendRefusal(exchange, barred.refusal);
      return;
    }

    let input = read(request, values, exchange.query);
    if (input instanceof Promise) input = await input;
    if (!input.ok) {
      sendRefusal(exchange, input.refusal);
      return;
    }
    const sent = keyable ? idempotencyKeyIn(request.headers) : NO_KEY;
    if (!sent.ok) {
      sendRefusal(exchange, sent.refusal);
      return;
    }
    const path = trimmed(exchange.path.slice(root.length));
    const keyed = sent.value === null ? null : { key: sent.value, method, path, body: input.value };
    const upload = operation.upload === undefined ? NO_UPLOAD : openUpload(request, operation.upload);
    const outcome = upload.ok
      ? await perform(operation, { input: input.value, caller: who.value, keyed, upload: upload.value })
      : upload;
    if (outcome.ok && outcome.value.file !== undefined)
      await sendFile(exchange, operation.download, outcome.value.file);
    else if (outcome.ok) sendAnswer(exchange, success, outcome.value, { door, publicUrl: parts.publicUrl?.() ?? '' });
    else {
      // The operation looked at a credential in the body.
      if (outcome.refusal.code === 'RATE_LIMIT_EXCEEDED') exchange.rateLimitHeaders = gate.signInRateHeaders(address);
      sendRefusal(exchange, outcome.refusal);
    }
  };
}

const NO_UPLOAD = done(null);
const NO_KEY = done(null);

const trimmed = (path: string): string => (path.endsWith('/') ? path.slice(0, -1) : path);

function sendAnswer(
  exchange: Exchange,
  success: number,
  answer: Performed,
  { door, publicUrl }: { door: HttpAuthenticator; publicUrl: string },
): void {
  const status = answer.status ?? success;
  const headers = answer.replayed ? ['Idempotent-Replayed', 'true'] : [];
  if (answer.next) headers.push('Link', `<${nextPage(publicUrl, exchange, answer.next)}>; rel="next"`);
  for (const change of answer.cookies ?? []) headers.push(...door.cookies.set(change));
  if (status === 204) {
    send(exchange, status, null, headers);
  } else if (status === 409 && isObject(answer.body)) {
    // The one conflict that is an answer: a critical action's dry run (contract §2).
    const { requestId: request_id } = exchange;
    sendJson(exchange, status, { ...answer.body, code: 'DRY_RUN_REQUIRED', request_id }, headers);
  } else {
    sendJson(exchange, status, answer.body, headers);
  }
}

/** The same request with another cursor. */
function nextPage(publicUrl: string, { path, query }: Exchange, cursor: string): string {
  const kept = query.split('&').filter((part) => part !== '' && !part.startsWith('cursor='));
  return `${publicUrl}${path}?${[...kept, `cursor=${encodeURIComponent(cursor)}`].join('&')}`;
}
