import type { IncomingHttpHeaders } from 'node:http';
import { done, type Outcome, type Refusal, refuse } from '../../domain/refusals.ts';
import { isUuid } from '../../domain/uuid.ts';
import type { Uuid } from '../../domain/values.ts';
import { REPORTED_PROTOCOL } from '../../operations/platform/system.ts';

export const API_VERSION = '1';

export const DRAINING: Refusal = { code: 'OVERLOADED', detail: 'This process is shutting down.', retryAfterS: 1 };

/** A valid UUID sent by the client is echoed, anything else is replaced (contract §2). */
export function requestIdOf(headers: IncomingHttpHeaders, newId: () => Uuid): Uuid {
  const sent = headers['x-request-id'];
  return typeof sent === 'string' && isUuid(sent) ? sent : newId();
}

/** Headers of every response of every HTTP edge, names and values alternating. */
export const standardHeaders = (requestId: Uuid): string[] => [
  'X-API-Version',
  API_VERSION,
  'X-Protocol-Version',
  REPORTED_PROTOCOL,
  'X-Request-ID',
  requestId,
  'X-Content-Type-Options',
  'nosniff',
  'Referrer-Policy',
  'no-referrer',
  'X-Frame-Options',
  'DENY',
  'Cross-Origin-Resource-Policy',
  'same-origin',
];

/**
 * The credential in the headers; null if there is none. Another scheme than Bearer gives an invalid (empty) credential.
 */
export function credentialIn(headers: IncomingHttpHeaders): string | null {
  const { authorization } = headers;
  if (authorization !== undefined) {
    return /^bearer /i.test(authorization) ? authorization.slice(7).trim() : '';
  }
  const key = headers['x-api-key'];
  return typeof key === 'string' ? key : null;
}

/** The idempotency key; null if there is none. Refuses an invalid one (contract §2). */
export function idempotencyKeyIn(headers: IncomingHttpHeaders): Outcome<string | null> {
  const key = headers['idempotency-key'];
  if (key === undefined) return done(null);
  if (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key)) return done(key);
  const message = 'must be 1 to 255 visible ASCII characters';
  return refuse('VALIDATION_FAILED', 'Idempotency-Key must be 1 to 255 visible ASCII characters.', {
    errors: [{ path: 'Idempotency-Key', message }],
  });
}
