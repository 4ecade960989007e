import type { IncomingMessage, RequestListener } from 'node:http';
import type { Refusal } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { httpExchangeOf, sendRefusal } from './http-exchange.ts';

const REFUSAL: Refusal = { code: 'VALIDATION_FAILED', detail: 'The request has more than one Host header.' };

/** Node discards the second one: a proxy and this process could each take another one (RFC 9112 §3.2: 400). */
export function hasSeveralHosts({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): boolean {
  let hosts = 0;
  for (let n = 0; n < rawHeaders.length; n += 2) {
    const name = rawHeaders[n] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  return hosts > 1;
}

/** Refuses requests with several Host headers; passes all others to the listener. */
export function refusingSeveralHosts(listener: RequestListener, newId: () => Uuid): RequestListener {
  return (request, response) => {
    if (!hasSeveralHosts(request)) return listener(request, response);
    return sendRefusal(httpExchangeOf(request, response, { newId, isLast: () => true }), REFUSAL);
  };
}
