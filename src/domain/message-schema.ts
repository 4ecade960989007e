import { isObject } from './json/value.ts';
import type { Json, JsonObject } from './values.ts';

/**
 * A field in the subset of JSON Schema that the protocol needs. The check and the documentation are derived from the
 * same definition.
 */
export type FieldSchema = { readonly description?: string; readonly examples?: readonly Json[] } & (
  | { readonly type?: never }
  | { readonly type: 'boolean' | 'object' }
  | { readonly type: 'string'; readonly enum?: readonly string[]; readonly format?: string }
  | {
      readonly type: 'number' | 'integer';
      readonly minimum?: number;
      readonly exclusiveMinimum?: number;
      readonly maximum?: number;
    }
  | { readonly type: 'array'; readonly items: FieldSchema }
);

export type FieldSchemas = Readonly<Record<string, FieldSchema>>;

type RequiredOf<T> = { [Name in keyof T]-?: object extends Pick<T, Name> ? never : Name }[keyof T];

/** The schema of every field of type `T`. Unknown fields are ignored. */
export interface MessageSchema<T> {
  readonly required: { readonly [Name in RequiredOf<T>]: FieldSchema };
  readonly optional: { readonly [Name in Exclude<keyof T, RequiredOf<T>>]: FieldSchema };
}

/** A whole number from 0 that a double represents exactly. */
export const countSchema = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const;

export type FieldCheck = (value: Json) => boolean;

/** The check for a field's schema; `format` is documentation only. */
export function compileFieldCheck(field: FieldSchema): FieldCheck {
  switch (field.type) {
    case undefined:
      return () => true;
    case 'boolean':
      return (value) => typeof value === 'boolean';
    case 'object':
      return isObject;
    case 'string': {
      const { enum: allowed } = field;
      if (allowed === undefined) return (value) => typeof value === 'string';
      return (value) => allowed.includes(value as string);
    }
    case 'array': {
      const item = compileFieldCheck(field.items);
      return (value) => Array.isArray(value) && value.every(item);
    }
    default:
      return numberCheck(field);
  }
}

function numberCheck(field: Extract<FieldSchema, { type: 'number' | 'integer' }>): FieldCheck {
  const { type, minimum = -Infinity, maximum = Infinity, exclusiveMinimum: above = -Infinity } = field;
  const within = (value: number) => value >= minimum && value <= maximum && (value > above || above === -Infinity);
  if (type === 'number') return (value) => typeof value === 'number' && within(value);
  return (value) => Number.isInteger(value) && within(value as number);
}

/** Compiles a check that returns the first fault in an object's fields, or null. The check runs for every message. */
export function compileMessageCheck<T>({ required, optional }: MessageSchema<T>): (value: JsonObject) => string | null {
  const compiled = (fields: object) =>
    Object.entries(fields as FieldSchemas).map(([name, field]) => ({ name, check: compileFieldCheck(field) }));
  const needed = compiled(required);
  const allowed = compiled(optional);
  return (value) => {
    for (const { name, check } of needed) {
      if (!Object.hasOwn(value, name)) return `${name} is missing`;
      if (!check(value[name] as Json)) return `${name} is not valid`;
    }
    for (const { name, check } of allowed) {
      if (Object.hasOwn(value, name) && !check(value[name] as Json)) return `${name} is not valid`;
    }
    return null;
  };
}

/** The message schema as JSON Schema. */
export function toJsonSchema(
  { required, optional }: { required: object; optional: object },
  description?: string,
): JsonObject {
  const names = Object.keys(required);
  return {
    type: 'object',
    ...(description !== undefined && { description }),
    properties: JSON.parse(JSON.stringify({ ...required, ...optional })) as JsonObject,
    ...(names.length > 0 && { required: names }),
  };
}
