import { GraphQLError } from 'graphql';
import { type Refusal, refusals } from '../../domain/refusals.ts';
import type { Uuid } from '../../domain/values.ts';

/** A refusal as a GraphQL error, with the members of a problem document in `extensions`. */
export class RefusalError extends GraphQLError {
  readonly refusal: Refusal;

  constructor(refusal: Refusal, requestId: Uuid) {
    super(refusal.detail, { extensions: refusalExtensions(refusal, requestId) });
    this.refusal = refusal;
  }
}

export const refusalExtensions = ({ code, errors, retryAfterS, commandId }: Refusal, requestId: Uuid) => ({
  code,
  status: refusals[code].status,
  requestId,
  ...(errors !== undefined && { errors }),
  ...(retryAfterS !== undefined && { retryAfterS }),
  ...(commandId !== undefined && { commandId }),
});
