import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { credentialIn } from './http.ts';

/** Whether a request presents `METRICS_TOKEN`; never if it is not set. */
export type PresentsMetricsToken = (headers: IncomingHttpHeaders) => boolean;

/**
 * The token is presented as every credential is: as a bearer token, or without `Authorization` in `X-API-Key`. Compares
 * the digests in constant time.
 */
export function metricsTokenCheck(token: string | null): PresentsMetricsToken {
  if (token === null) return () => false;
  const expected = hash('sha256', token, 'buffer');
  return (headers) => {
    const credential = credentialIn(headers);
    return credential !== null && timingSafeEqual(hash('sha256', credential, 'buffer'), expected);
  };
}
