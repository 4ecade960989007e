import type { JsonObject, JsonValue } from './planner-types.ts';

// The parameter schemas of manifests use a subset of JSON Schema without references and patterns, so this is all there is.

/** What is wrong with a value, or null. `at` names it in the answer. */
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

function lengthError(schema: JsonObject, what: 'Length' | 'Items', size: number, at: string): string | null {
  const [min, max] = [schema[`min${what}`], schema[`max${what}`]];
  if (typeof min === 'number' && size < min) return `${at} is too short`;
  if (typeof max === 'number' && size > max) return `${at} is too long`;
  return null;
}

function arrayError(schema: JsonObject, value: JsonValue[], at: string): string | null {
  const size = lengthError(schema, 'Items', value.length, at);
  if (size !== null || !isObject(schema.items)) return size;
  const items = schema.items;
  return firstError(value, (item, place) => schemaError(items, item, `${at}[${place}]`));
}

function objectError(schema: JsonObject, value: JsonObject, at: string): string | null {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const missing = required.find((name) => typeof name === 'string' && !Object.hasOwn(value, name));
  if (missing !== undefined) return `${at}.${missing} is missing`;
  return firstError(Object.entries(value), ([name, inner]) => {
    const own = Object.hasOwn(properties, name) ? properties[name] : undefined;
    // Whatever the schema says, the service takes no parameter that it does not name.
    if (own === undefined) return `${at}.${name} is not known`;
    return isObject(own) ? schemaError(own, inner, `${at}.${name}`) : null;
  });
}

function firstError<T>(list: readonly T[], look: (item: T, place: number) => string | null): string | null {
  for (const [place, item] of list.entries()) {
    const found = look(item, place);
    if (found !== null) return found;
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

/** Deep equality of JSON; the order of an object's members does not count. */
export function deepEqual(one: JsonValue | undefined, other: JsonValue | undefined): boolean {
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, place) => deepEqual(item, other[place]));
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
