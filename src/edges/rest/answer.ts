import { isObject } from '../../domain/json/value.ts';
import { done } from '../../domain/refusals.ts';
import { mayCall, type Perform, type Performed } from '../../operations/perform.ts';
import type { AddressOf } from '../shared/client-address.ts';
import { type Exchange, pays, send, sendJson, sendRefusal } from '../shared/exchange.ts';
import type { FrontDoor } from '../shared/front-door.ts';
import type { Gate } from '../shared/gate.ts';
import { idempotencyKeyIn } from '../shared/http.ts';
import { sendFile } from './file.ts';
import { makeInputReader, namesIn } from './input.ts';
import { isKeyable, type Route } from './route.ts';
import { uploadIn } from './upload.ts';

/** Answers an exchange. `values` are the texts of the path's `{…}` segments. */
export type Answering = (exchange: Exchange, values: readonly string[], root: string) => Promise<void>;

/** From a request to the operation of its route and back. May throw what `refusalOf` knows. */
export function answering(
  parts: { door: FrontDoor; perform: Perform; gate: Gate; addressOf: AddressOf; publicUrl?(): string },
  route: Route,
): Answering {
  const { door, perform, gate, addressOf } = parts;
  const { operation, method, success } = route;
  const read = makeInputReader(route);
  const names = namesIn(route.path);
  const looksAtCaller = operation.role !== null || operation.greets === true;
  const keyable = isKeyable(route);

  return async (exchange, values, root) => {
    const { request, requestId } = exchange;
    const address = addressOf(request);
    const asking = { via: 'rest', requestId, address };
    const isStranger = operation.role === null || !door.presents(request.headers);
    if (isStranger && !route.outsideRate && !pays(exchange, gate.stranger(address))) return;

    let who = looksAtCaller ? door.callerOf(request.headers, asking) : door.nobody(request.headers, asking);
    if (who instanceof Promise) who = await who;
    // Where nobody is needed a bad credential does no harm.
    if (!who.ok && operation.role === null) who = await door.nobody(request.headers, asking);
    if (!who.ok) {
      exchange.charged = gate.signInHeaders(address);
      sendRefusal(exchange, who.refusal);
      return;
    }
    if (!isStranger) {
      let charge = gate.caller(who.value, address);
      if (charge instanceof Promise) charge = await charge;
      if (!pays(exchange, charge)) return;
    }
    // Before anything is read of what nobody asked this caller for.
    const forged = operation.changes && who.value.cookie ? await door.forged(request.headers, who.value) : null;
    const barred = forged ?? mayCall(operation, who.value);
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
    const upload = operation.takes === undefined ? NO_UPLOAD : uploadIn(request, operation.takes);
    const outcome = upload.ok
      ? await perform(operation, { input: input.value, caller: who.value, keyed, upload: upload.value })
      : upload;
    if (outcome.ok && outcome.value.file !== undefined) await sendFile(exchange, operation.gives, outcome.value.file);
    else if (outcome.ok) sendAnswer(exchange, success, outcome.value, { door, publicUrl: parts.publicUrl?.() ?? '' });
    else {
      // The operation looked at a credential in the body.
      if (outcome.refusal.code === 'RATE_LIMIT_EXCEEDED') exchange.charged = gate.signInHeaders(address);
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
  { door, publicUrl }: { door: FrontDoor; publicUrl: string },
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
