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
  // Syntax Error: Expected ":", found String "1234".
  if (kind === undefined) return message.replace(TOKEN, '$1');
  if (kind !== Kind.VARIABLE_DEFINITION) return LITERAL.test(kind) ? withoutValue(message) : endAt(message, FOUND);
  const reason = originalError?.message ?? '';
  // Variable "$input" has invalid value at .params: reason
  if (reason === '' || !message.endsWith(reason)) return endAt(message, FOUND);
  return message.slice(0, -reason.length) + withoutValue(reason);
}

const withoutValue = (text: string): string =>
  endAt(text.replace(/^Value ".*" does not exist/s, 'Value does not exist'), VALUE);

/** Kinds of the nodes that errors of literals name. */
const LITERAL = /(?:Value|ObjectField)$/;
const FOUND = /[,;]? [Ff]ound: /;
/** Tokens whose text may be a value, or a part of one. */
const TOKEN = /\b(String|BlockString|Int|Float|Name) ".*"/s;
/** Also `Int cannot represent non-integer value: 1.5`. */
const VALUE = /(?:[,;]? [Ff]ound)?: /;

function endAt(text: string, start: RegExp): string {
  const at = text.search(start);
  if (at === -1) return text;
  const kept = text.slice(0, at);
  return /[.?]$/.test(kept) ? kept : `${kept}.`;
}
