import { GraphQLError } from 'graphql';
import type { Log } from '../../domain/log.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import { refusalExtensions } from './refusal-error.ts';

/**
 * An error as the client sees it. An unexpected error is logged, and answered without its description. An error of the
 * request itself (its syntax, fields or variables) has no path; its text is the library's, which follows the GraphQL
 * specification.
 */
export function toClientError(error: Readonly<GraphQLError | Error>, log: Log, requestId: Uuid): GraphQLError {
  const cause = error instanceof GraphQLError ? error.cause : error;
  if (error instanceof GraphQLError && (cause === undefined || cause instanceof GraphQLError)) {
    return error.path === undefined && error.extensions.code === undefined ? invalidRequest(error, requestId) : error;
  }
  const refusal = refusalOf(cause, log, { request_id: requestId });
  return new GraphQLError(refusal.detail, {
    ...(error instanceof GraphQLError && { nodes: error.nodes, path: error.path }),
    extensions: refusalExtensions(refusal, requestId),
  });
}

const invalidRequest = (error: GraphQLError, requestId: Uuid): GraphQLError =>
  new GraphQLError(error.message, {
    ...{ nodes: error.nodes, source: error.source, positions: error.positions },
    extensions: refusalExtensions({ code: 'VALIDATION_FAILED', detail: error.message }, requestId),
  });
