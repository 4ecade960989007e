import { GraphQLError } from 'graphql';
import type { Log } from '../../domain/log.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import { refusalExtensions } from './refusal-error.ts';

/** An error as the client sees it. An unexpected error is logged, and answered without its description. */
export function toClientError(error: Readonly<GraphQLError | Error>, log: Log, requestId: Uuid): GraphQLError {
  const cause = error instanceof GraphQLError ? error.cause : error;
  if (error instanceof GraphQLError && (cause === undefined || cause instanceof GraphQLError)) return error;
  const refusal = refusalOf(cause, log, { request_id: requestId });
  return new GraphQLError(refusal.detail, {
    ...(error instanceof GraphQLError && { nodes: error.nodes, path: error.path }),
    extensions: refusalExtensions(refusal, requestId),
  });
}
