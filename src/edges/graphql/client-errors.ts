import { GraphQLError, Kind } from 'graphql';
import type { Log } from '../../domain/log.ts';
import type { Uuid } from '../../domain/values.ts';
import { refusalOf } from '../../operations/faults.ts';
import { refusalExtensions } from './refusal-error.ts';

/**
 * An error as the client sees it. An unexpected error is logged, and answered without its description. An error of the
 * request itself (its syntax, fields or variables) has no path; its text is the library's, which follows the GraphQL
 * specification, without values: they may be `writeOnly` parameters.
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

function invalidRequest(error: GraphQLError, requestId: Uuid): GraphQLError {
  const detail = withoutValues(error);
  return new GraphQLError(detail, {
    ...{ nodes: error.nodes, source: error.source, positions: error.positions },
    extensions: refusalExtensions({ code: 'VALIDATION_FAILED', detail }, requestId),
  });
}

/** The text of an error without the values of variables and literals that the library includes. */
function withoutValues({ message, nodes, originalError }: GraphQLError): string {
  const kind = nodes?.[0]?.kind;
  if (kind !== Kind.VARIABLE_DEFINITION) return kind?.endsWith('Value') ? endAt(message, FOUND) : message;
  const reason = originalError?.message ?? '';
  // Variable "$input" has invalid value at .params: reason
  if (reason === '' || !message.endsWith(reason)) return endAt(message, FOUND);
  const text = reason.replace(/^Value ".*" does not exist/s, 'Value does not exist');
  return message.slice(0, -reason.length) + endAt(text, VALUE);
}

const FOUND = /[,;]? [Ff]ound: /;
/** Also `Int cannot represent non-integer value: 1.5`. */
const VALUE = /(?:[,;]? [Ff]ound)?: /;

function endAt(text: string, start: RegExp): string {
  const at = text.search(start);
  if (at === -1) return text;
  const kept = text.slice(0, at);
  return /[.?]$/.test(kept) ? kept : `${kept}.`;
}
