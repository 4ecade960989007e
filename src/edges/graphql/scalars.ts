import { GraphQLError, GraphQLScalarType } from 'graphql';
import { isObject } from '../../domain/json/value.ts';

/** A time in the format of every HTTP response. Input is validated by the operation. */
export const dateTimeScalar = new GraphQLScalarType<string>({
  name: 'DateTime',
  description: 'ISO 8601 in UTC, as `2026-03-01T12:00:00.000Z`; an argument may have another offset, as `+01:00`',
  specifiedByURL: 'https://scalars.graphql.org/andimarek/date-time.html',
  coerceOutputValue: (value) => (typeof value === 'number' ? new Date(value).toISOString() : `${value}`),
  coerceInputValue(value) {
    if (typeof value === 'string') return value;
    throw new GraphQLError('A DateTime must be a string.');
  },
});

export const jsonScalar = new GraphQLScalarType<unknown>({
  name: 'JSON',
  description: 'Any JSON',
  coerceOutputValue: (value) => value,
  coerceInputValue: (value) => value,
});

export const jsonObjectScalar = new GraphQLScalarType<unknown>({
  name: 'JSONObject',
  description: 'A JSON object',
  coerceOutputValue: (value) => value,
  coerceInputValue(value) {
    if (isObject(value)) return value;
    throw new GraphQLError('A JSONObject must be an object.');
  },
});
