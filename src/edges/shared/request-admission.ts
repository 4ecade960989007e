import type { Caller } from '../../operations/operation.ts';
import type { AddressOf } from './client-address.ts';
import { applyCharge, type Exchange, sendRefusal } from './exchange.ts';
import type { HttpAuthenticator } from './http-authenticator.ts';
import type { RateLimiter } from './rate-limiter.ts';

/**
 * Who sends a request, once it is charged; null where it goes no further and is answered. Who presents nothing comes in too, as
 * a caller without a user: whether one is needed is for what is asked.
 */
export async function admitRequest(
  exchange: Exchange,
  { door, gate, addressOf }: { door: HttpAuthenticator; gate: RateLimiter; addressOf: AddressOf },
  via: string,
): Promise<Caller | null> {
  const { request, requestId } = exchange;
  const address = addressOf(request);
  const isStranger = !door.hasCredential(request.headers);
  if (isStranger && !applyCharge(exchange, gate.chargeAnonymous(address))) return null;
  const who = await door.authenticate(request.headers, { via, requestId, address });
  if (!who.ok) {
    exchange.rateLimitHeaders = gate.signInRateHeaders(address);
    sendRefusal(exchange, who.refusal);
    return null;
  }
  return isStranger || applyCharge(exchange, await gate.chargeCaller(who.value, address)) ? who.value : null;
}
