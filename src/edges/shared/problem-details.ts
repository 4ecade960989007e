import { type Refusal, refusals } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';

/** Problem details (RFC 9457) with the service's members (contract §2). */
export interface ProblemDetails {
  type: string;
  title: string;
  status: number;
  detail: string;
  /** The request's path; never its query, which may contain a credential. */
  instance: string;
  code: Refusal['code'];
  request_id: Uuid;
  errors?: Refusal['errors'];
  /** The command that was stored as rejected. */
  command_id?: Uuid;
}

export const problemOf = (refusal: Refusal, instance: string, requestId: Uuid): ProblemDetails => ({
  type: `urn:twinkeep:problem:${refusal.code}`,
  ...{ title: refusals[refusal.code].title, status: refusals[refusal.code].status },
  detail: refusal.detail,
  instance,
  code: refusal.code,
  request_id: requestId,
  ...(refusal.errors !== undefined && { errors: refusal.errors }),
  ...(refusal.commandId !== undefined && { command_id: refusal.commandId }),
});

/** Headers of a refusal on any HTTP edge. `challenge` is added to the challenge of a 401. */
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
