import type { IncomingHttpHeaders } from 'node:http';
import { done, type Outcome, type Refusal, refusals, refuse } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';
import { REPORTED_PROTOCOL } from '../../operations/platform/system.ts';

export const API_VERSION = '1';

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** A valid UUID sent by the client is echoed, anything else is replaced (contract §2). */
export function requestIdOf(headers: IncomingHttpHeaders, newId: () => Uuid): Uuid {
  const sent = headers['x-request-id'];
  return typeof sent === 'string' && UUID.test(sent) ? sent : newId();
}

/** Names and values in turn, for every answer of every HTTP edge. */
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

/** RFC 9457, with our own members (contract §2). */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  /** The request's path; never its query, which may hold a credential. */
  instance: string;
  code: Refusal['code'];
  request_id: Uuid;
  errors?: Refusal['errors'];
}

export const problemOf = (refusal: Refusal, instance: string, requestId: Uuid): Problem => ({
  type: `urn:twinkeep:problem:${refusal.code}`,
  ...{ title: refusals[refusal.code].title, status: refusals[refusal.code].status },
  detail: refusal.detail,
  instance,
  code: refusal.code,
  request_id: requestId,
  ...(refusal.errors !== undefined && { errors: refusal.errors }),
});

/** Headers that belong to a refusal on any HTTP edge. `challenge` is what a 401 says more. */
export function refusalHeaders(refusal: Refusal, presented: boolean, challenge = ''): string[] {
  const headers: string[] = [];
  if (refusal.retryAfterS !== undefined) headers.push('Retry-After', `${refusal.retryAfterS}`);
  if (refusal.code === 'UNAUTHENTICATED') {
    headers.push(
      'WWW-Authenticate',
      `Bearer realm="twinkeep"${presented ? ', error="invalid_token"' : ''}${challenge}`,
    );
  }
  return headers;
}

/** The credential in a request's headers; null where there is none. Under another scheme it is one that nobody takes. */
export function credentialIn(headers: IncomingHttpHeaders): string | null {
  const { authorization } = headers;
  if (authorization !== undefined) {
    return /^bearer /i.test(authorization) ? authorization.slice(7).trim() : '';
  }
  const key = headers['x-api-key'];
  return typeof key === 'string' ? key : null;
}

/** Null where none was sent; refuses what is none (contract §2). */
export function idempotencyKeyIn(headers: IncomingHttpHeaders): Outcome<string | null> {
  const key = headers['idempotency-key'];
  if (key === undefined) return done(null);
  if (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key)) return done(key);
  const message = 'must be 1 to 255 visible ASCII characters';
  return refuse('VALIDATION_FAILED', 'An Idempotency-Key is 1 to 255 visible ASCII characters.', {
    errors: [{ path: 'Idempotency-Key', message }],
  });
}
