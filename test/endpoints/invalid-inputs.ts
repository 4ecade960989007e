import { z } from 'zod';
import { isObject } from '../../src/domain/json/value.ts';
import type { Json, JsonObject } from '../../src/domain/values.ts';

/** The keywords of JSON Schema in the inputs of operations and tools. */
export interface InputSchema {
  $ref?: string;
  $defs?: Record<string, InputSchema>;
  type?: string;
  format?: string;
  pattern?: string;
  anyOf?: InputSchema[];
  oneOf?: InputSchema[];
  enum?: Json[];
  const?: Json;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  items?: InputSchema;
  properties?: Record<string, InputSchema>;
  additionalProperties?: InputSchema | boolean;
}

/** Values of all types and texts of no form, of which at least one violates each type, format and pattern. */
const ODD_VALUES: readonly Json[] = [
  ...[null, true, 7, -1, 1.5, 1e300],
  ...['', ' ', 'x', 'No such form', '\u0007', 'a\u0007b', 'é'.repeat(70)],
  ...['2026-02-30T00:00:00.000Z', 'https://', '00000000-0000-0000-0000-00000000000g', 'a@b'],
  ...[[], [null], {}, { no_such_member: 1 }],
];

/** Above most limits, and below that of a request. */
const LONG_TEXT = 20_000;
const MANY_ITEMS = 1_100;
const MAX_LEVELS = 6;

/** Candidates for values that violate the schema: for each of its keywords, and in each of its members. */
export function* oddValues(schema: InputSchema, defs: InputSchema['$defs'] = {}, levels = 0): Generator<Json> {
  if (schema.$ref !== undefined) {
    const target = defs[schema.$ref.replace('#/$defs/', '')];
    if (target === undefined) throw new Error(`no definition of ${schema.$ref}`);
    yield* oddValues(target, defs, levels);
    return;
  }
  yield* ODD_VALUES;
  if (levels === MAX_LEVELS) return;
  const within = (inner: InputSchema) => oddValues(inner, defs, levels + 1);
  for (const variant of [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])]) yield* within(variant);
  for (const value of [...(schema.enum ?? []), ...(schema.const === undefined ? [] : [schema.const])]) {
    yield* [`${value}`.toUpperCase(), `${value}s`, [value]];
  }
  const { minLength = 1, maxLength = LONG_TEXT, minimum, maximum, minItems = 1, maxItems = MANY_ITEMS } = schema;
  if (schema.type === 'string') yield* ['x'.repeat(minLength - 1), 'x'.repeat(maxLength + 1)];
  if (minimum !== undefined) yield minimum - 1;
  if (maximum !== undefined) yield maximum + 1;
  const { items, properties = {}, additionalProperties } = schema;
  if (items !== undefined) {
    const texts = (length: number) => Array.from({ length }, (_, n) => `x${n}`);
    yield* [texts(minItems - 1), texts(maxItems + 1)];
    for (const item of within(items)) yield [item];
  }
  for (const [name, member] of Object.entries(properties)) for (const value of within(member)) yield { [name]: value };
  if (isObject(additionalProperties)) {
    for (const value of within(additionalProperties as InputSchema)) yield { 'no such key': value };
  }
}

/**
 * Candidates for valid values that a store might not take: at the limits of the schema, or with a meaning in SQL. The
 * candidates for a member of an object, and for the first entry of an array, have the rest of the `valid` value.
 */
export function* extremeValues(schema: InputSchema, defs: InputSchema['$defs'] = {}, valid?: Json): Generator<Json> {
  const { $ref = '', maxLength = 0, minimum, maximum, anyOf = [], oneOf = [], properties = {}, items } = schema;
  const target = defs[$ref.replace('#/$defs/', '')];
  for (const one of [...(target === undefined ? [] : [target]), ...anyOf, ...oneOf]) {
    yield* extremeValues(one, defs, valid);
  }
  if (isObject(valid)) {
    for (const [name, member] of Object.entries(properties)) {
      for (const value of extremeValues(member, defs, valid[name])) yield { ...valid, [name]: value };
    }
  }
  if (Array.isArray(valid) && items !== undefined) {
    for (const value of extremeValues(items, defs, valid[0])) yield [value, ...valid.slice(1)];
  }
  yield* [true, '%', "\\'--", '0000-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z', '10', 'a\n', '{', []];
  yield* [{ '': { $ne: null } }, { "'": "\\'" }, ['\u{10ffff}']];
  yield* ['x'.repeat(maxLength), '\u{10ffff}'.repeat(Math.floor(maxLength / 2))];
  if (minimum !== undefined) yield minimum;
  if (maximum !== undefined) yield maximum;
}

/** An operation's input, or one variant of it, with the values that make each member fail in each way that it can. */
export interface InvalidMembers {
  /** The member that chooses the variant. */
  fixed: JsonObject;
  values: ReadonlyMap<string, readonly Json[]>;
}

export function invalidMembers(schema: z.ZodType): InvalidMembers[] {
  const { $defs, ...root } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as InputSchema;
  return (root.oneOf ?? [root]).map(({ properties = {} }) => {
    const members = Object.entries(properties);
    const fixed = Object.fromEntries(
      members.flatMap(([name, { const: value }]) => (value === undefined ? [] : [[name, value]])),
    );
    const values = members.map(([name, member]) => {
      const failuresOf = (value: Json): string[] => failures(schema, { ...fixed, [name]: value }, name);
      return [name, withNewFailure(oddValues(member, $defs), failuresOf)] as const;
    });
    return { fixed, values: new Map(values) };
  });
}

/** In what the member fails, by issue, place and text. */
function failures(schema: z.ZodType, input: JsonObject, name: string): string[] {
  const issues = schema.safeParse(input).error?.issues ?? [];
  return issues
    .filter(({ path }) => path[0] === name)
    .map(
      ({ code, path, message }) => `${code} ${path.filter((part) => typeof part !== 'number').join('.')}: ${message}`,
    );
}

function withNewFailure(values: Iterable<Json>, failuresOf: (value: Json) => string[]): Json[] {
  const known = new Set<string>();
  return [...values].filter((value) => {
    const found = failuresOf(value);
    const isNew = found.some((failure) => !known.has(failure));
    for (const failure of found) known.add(failure);
    return isNew;
  });
}

/**
 * Inputs with all invalid values of all members. Each has an unknown member and an invalid value of every member that has
 * one left; the other members are missing.
 */
export const invalidInputs = (variants: readonly InvalidMembers[]): JsonObject[] =>
  variants.flatMap(({ fixed, values }) =>
    Array.from({ length: Math.max(1, ...[...values.values()].map(({ length }) => length)) }, (_, n) => ({
      ...fixed,
      ...Object.fromEntries([...values].flatMap(([name, all]) => (n < all.length ? [[name, all[n] as Json]] : []))),
      no_such_member: 1,
    })),
  );
