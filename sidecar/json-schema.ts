import type { JsonObject, JsonValue } from './planner-types.ts';

// Validator for the parameter schemas of manifests: a subset of JSON Schema without references and patterns.

/** The first error, or null if the value is valid. `at` is the path in the message. */
export function schemaError(schema: JsonObject, value: JsonValue | undefined, at = 'params'): string | null {
  if (value === undefined) return `${at} is missing`;
  const { type, enum: choices, const: only } = schema;
  if (typeof type === 'string' && !isOfType(type, value)) return `${at} must be of type ${type}`;
  if (Array.isArray(choices) && !choices.some((choice) => deepEqual(choice, value))) {
    return `${at} must be one of ${JSON.stringify(choices).slice(0, 200)}`;
  }
  if (only !== undefined && !deepEqual(only, value)) return `${at} must be ${JSON.stringify(only)}`;
  if (typeof value === 'number') return numberError(schema, value, at);
  if (typeof value === 'string') return lengthError(schema, 'Length', [...value].length, at);
  if (Array.isArray(value)) return arrayError(schema, value, at);
  return isObject(value) ? objectError(schema, value, at) : null;
}

function numberError(schema: JsonObject, value: number, at: string): string | null {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  if (typeof minimum === 'number' && value < minimum) return `${at} must be at least ${minimum}`;
  if (typeof maximum === 'number' && value > maximum) return `${at} must be at most ${maximum}`;
  if (typeof exclusiveMinimum === 'number' && value <= exclusiveMinimum)
    return `${at} must be above ${exclusiveMinimum}`;
  if (typeof exclusiveMaximum === 'number' && value >= exclusiveMaximum)
    return `${at} must be below ${exclusiveMaximum}`;
  if (typeof multipleOf === 'number' && multipleOf > 0) {
    const times = value / multipleOf;
    if (Math.abs(times - Math.round(times)) > 1e-9) return `${at} must be a multiple of ${multipleOf}`;
  }
  return null;
}

function lengthError(schema: JsonObject, keyword: 'Length' | 'Items', size: number, at: string): string | null {
  const [min, max] = [schema[`min${keyword}`], schema[`max${keyword}`]];
  if (typeof min === 'number' && size < min) return `${at} is too short`;
  if (typeof max === 'number' && size > max) return `${at} is too long`;
  return null;
}

function arrayError(schema: JsonObject, value: JsonValue[], at: string): string | null {
  const size = lengthError(schema, 'Items', value.length, at);
  if (size !== null || !isObject(schema.items)) return size;
  const items = schema.items;
  return firstError(value, (item, index) => schemaError(items, item, `${at}[${index}]`));
}

function objectError(schema: JsonObject, value: JsonObject, at: string): string | null {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const missing = required.find((name) => typeof name === 'string' && !Object.hasOwn(value, name));
  if (missing !== undefined) return `${at}.${missing} is missing`;
  return firstError(Object.entries(value), ([name, inner]) => {
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined;
    // The service refuses parameters that the schema does not name, even if additionalProperties is true.
    if (own === undefined) return `${at}.${name} is unknown`;
    return isObject(own) ? schemaError(own, inner, `${at}.${name}`) : null;
  });
}

function firstError<T>(list: readonly T[], check: (item: T, index: number) => string | null): string | null {
  for (const [index, item] of list.entries()) {
    const error = check(item, index);
    if (error !== null) return error;
  }
  return null;
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function isOfType(type: string, value: JsonValue): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isObject(value);
  return type === 'null' ? value === null : typeof value === type;
}

/** Deep equality of JSON, independent of the order of members. */
export function deepEqual(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, index) => deepEqual(item, other[index]));
  }
  if (isObject(one) && isObject(other)) {
    const names = Object.keys(one);
    return (
      names.length === Object.keys(other).length &&
      names.every((name) => Object.hasOwn(other, name) && deepEqual(one[name], other[name]))
    );
  }
  return one === other;
}
