import type { Caller } from '../../operations/operation.ts';
import type { AddressOf } from './client-address.ts';
import type { HttpAuthenticator } from './http-authenticator.ts';
import { applyCharge, type HttpExchange, sendRefusal } from './http-exchange.ts';
import type { RequestRateLimiter } from './rate-limiter.ts';

/**
 * Authenticates a request and charges it against its rate limit. Null if it was refused, and answered. A request without
 * a credential is admitted as a caller without a user: the operation decides whether it requires one.
 */
export async function admitRequest(
  exchange: HttpExchange,
  {
    authenticator,
    rateLimiter,
    addressOf,
  }: { authenticator: HttpAuthenticator; rateLimiter: RequestRateLimiter; addressOf: AddressOf },
  via: string,
): Promise<Caller | null> {
  const { request, requestId } = exchange;
  const address = addressOf(request);
  const isAnonymous = !authenticator.hasCredential(request.headers);
  if (isAnonymous && !applyCharge(exchange, rateLimiter.chargeAnonymous(address))) return null;
  const caller = await authenticator.authenticate(request.headers, { via, requestId, address });
  if (!caller.ok) {
    exchange.rateLimitHeaders = rateLimiter.signInRateHeaders(address);
    sendRefusal(exchange, caller.refusal);
    return null;
  }
  return isAnonymous || applyCharge(exchange, await rateLimiter.chargeCaller(caller.value, address))
    ? caller.value
    : null;
}
