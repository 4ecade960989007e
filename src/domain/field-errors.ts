import type { z } from 'zod';
import type { FieldError } from './refusals.ts';

// Texts of validation errors. A schema's own message has precedence; every other error of zod is worded here.

type RawIssue<Code extends z.core.$ZodIssue['code']> = Extract<z.core.$ZodRawIssue, { code: Code }>;

const typeNames: Readonly<Record<string, string>> = {
  array: 'an array',
  bigint: 'an integer',
  boolean: 'a boolean',
  int: 'an integer',
  null: 'null',
  number: 'a number',
  object: 'an object',
  record: 'an object',
  string: 'a string',
};

const formatNames: Readonly<Record<string, string>> = {
  base64: 'a base64 text',
  base64url: 'a base64url text',
  datetime: 'a date and time of RFC 3339',
  email: 'an e-mail address',
  json_string: 'a JSON text',
  url: 'a URL',
  uuid: 'a UUID',
};

const units: Readonly<Record<string, readonly [one: string, many: string]>> = {
  array: ['item', 'items'],
  map: ['entry', 'entries'],
  set: ['item', 'items'],
  string: ['character', 'characters'],
};

/** `5` for a number, `5 characters` for a string, `1 item` for an array. */
function measure(origin: string, bound: number | bigint): string {
  const unit = units[origin];
  return unit === undefined ? String(bound) : `${bound} ${Number(bound) === 1 ? unit[0] : unit[1]}`;
}

const isStringNotEmpty = ({ origin, minimum, inclusive }: RawIssue<'too_small'>): boolean =>
  origin === 'string' && Number(minimum) === 1 && inclusive !== false;

/** Primitives as they are written in JSON. */
const list = (values: readonly unknown[]): string => values.map((value) => JSON.stringify(value)).join(', ');

const mustBeOneOf = (values: readonly unknown[]): string =>
  values.length === 1 ? `must be ${list(values)}` : `must be one of ${list(values)}`;

function wrongType(expected: string): string {
  const name = typeNames[expected];
  return name === undefined ? 'has the wrong type' : `must be ${name}`;
}

function wrongFormat({ format }: RawIssue<'invalid_format'>): string {
  const name = formatNames[format];
  return name === undefined ? 'has the wrong format' : `must be ${name}`;
}

/** One text for each code of zod. A code that a later version adds does not compile. */
const texts = {
  invalid_type: ({ expected }) => wrongType(expected),
  too_big: ({ origin, maximum, inclusive, exact }) =>
    exact === true
      ? `must have exactly ${measure(origin, maximum)}`
      : `must be ${inclusive === false ? 'less than' : 'at most'} ${measure(origin, maximum)}`,
  too_small: (issue) => {
    const { origin, minimum, inclusive, exact } = issue;
    if (exact === true) return `must have exactly ${measure(origin, minimum)}`;
    if (isStringNotEmpty(issue)) return 'must not be empty';
    return `must be ${inclusive === false ? 'more than' : 'at least'} ${measure(origin, minimum)}`;
  },
  invalid_format: wrongFormat,
  not_multiple_of: ({ divisor }) => `must be a multiple of ${divisor}`,
  unrecognized_keys: () => 'unknown field',
  invalid_union: (issue) => {
    const { options } = issue as { options?: readonly unknown[] };
    return options !== undefined && options.length > 0 ? mustBeOneOf(options) : 'has none of the permitted forms';
  },
  invalid_key: () => 'contains a key that is not permitted',
  invalid_element: () => 'contains an element that is not valid',
  invalid_value: ({ values }) => mustBeOneOf(values),
  custom: () => 'is not valid',
} satisfies { [Code in z.core.$ZodIssue['code']]: (issue: RawIssue<Code>) => string };

/**
 * Words an error that has no message of its schema: "is required", "must be a string", "must be at most 200 characters".
 * For `safeParse(input, { error: errorText })`.
 */
export const errorText: z.core.$ZodErrorMap = (issue) => {
  if (issue.input === undefined && issue.code !== 'custom') return 'is required';
  const text = texts[issue.code] as ((issue: z.core.$ZodRawIssue) => string) | undefined;
  return text?.(issue) ?? 'is not valid';
};

/**
 * The errors of a parse with {@link errorText}: the first of each field, in the order of the schema. `path` joins the
 * names with dots and is empty for the whole input; an unknown field has an error of its own.
 */
export function fieldErrors(issues: readonly z.core.$ZodIssue[]): FieldError[] {
  const errors = new Map<string, FieldError>();
  for (const { path, message, ...issue } of issues) {
    const fields = issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...path, key]) : [path];
    for (const field of fields) {
      const at = field.map(String).join('.');
      if (!errors.has(at)) errors.set(at, { path: at, message });
    }
  }
  return [...errors.values()];
}
