import { isObject, jsonBytes, jsonEqual } from './json/value.ts';
import type { FieldError } from './refusals.ts';
import { isUnit } from './units.ts';
import type { Json, JsonObject } from './values.ts';

// Interprets a tenant's schema instead of compiling it: compiling 16 KiB blocked the event loop for 75 ms, and
// generated code would need a bounded cache per tenant. Every keyword of the subset takes time linear in the
// parameters.

export const MAX_SCHEMA_BYTES = 16 * 1024;
export const MAX_SCHEMA_LEVELS = 5;
export const MAX_ENUM_VALUES = 256;
/** Limit of the parameters' JSON text; more would not fit into a device's packet. */
export const MAX_PARAMS_BYTES = 32 * 1024;
const MAX_ERRORS = 20;

/**
 * Stands for the value of a `writeOnly` parameter wherever parameters are stored or shown. An object, so that a parameter
 * that is a text or a number never accepts it.
 */
export const WRITE_ONLY_MASK: JsonObject = Object.freeze({ write_only: true });

const isWriteOnlyMask = (value: Json): boolean => jsonEqual(value, WRITE_ONLY_MASK);

const types: readonly Json[] = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'];

/** Why `schema` is not in the contract's subset (§5); empty if it is. `path` is its position in the request. */
export function schemaErrors(schema: Json, path = 'paramSchema'): FieldError[] {
  const bytes = jsonBytes(schema);
  if (bytes > MAX_SCHEMA_BYTES) {
    const message = Number.isFinite(bytes) ? `is over ${MAX_SCHEMA_BYTES} bytes` : 'is nested too deeply';
    return [{ path, message }];
  }
  const errors: FieldError[] = [];
  inspect(schema, path, 1, (at, message) => errors.push({ path: at, message }));
  if (isObject(schema) && schema.type !== undefined && schema.type !== 'object') {
    errors.push({ path: `${path}.type`, message: 'must be "object", because parameters are named' });
  }
  return errors.slice(0, MAX_ERRORS);
}

type Report = (path: string, message: string) => void;
type KeywordRule = (value: Json, schema: JsonObject, at: string, level: number, report: Report) => void;

const expecting =
  (holds: (value: Json) => boolean, message: string): KeywordRule =>
  (value, _schema, at, _level, report) => {
    if (!holds(value)) report(at, message);
  };

const number = expecting((value) => typeof value === 'number', 'must be a number');
const count = expecting(
  (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  'must be a whole number of at least 0',
);
const text = expecting((value) => typeof value === 'string', 'must be a string');
const unit = expecting(isUnit, 'must be 1 to 16 characters without white space');
const anything = expecting(() => true, '');

const keywords = new Map<string, KeywordRule>([
  [
    'type',
    expecting(
      (value) =>
        Array.isArray(value)
          ? value.length > 0 && new Set(value).size === value.length && value.every((name) => types.includes(name))
          : types.includes(value),
      `must be one of ${types.join(', ')}, or a list of them`,
    ),
  ],
  [
    'properties',
    (value, _schema, at, level, report) => {
      if (!isObject(value)) report(at, 'must be an object of schemas');
      else for (const name of Object.keys(value)) inspect(value[name] as Json, `${at}.${name}`, level + 1, report);
    },
  ],
  ['required', requiredRule],
  [
    'additionalProperties',
    (value, _schema, at, level, report) => {
      if (typeof value !== 'boolean') inspect(value, at, level + 1, report);
    },
  ],
  ['items', (value, _schema, at, level, report) => inspect(value, at, level + 1, report)],
  [
    'enum',
    expecting(
      (value) => Array.isArray(value) && value.length > 0 && value.length <= MAX_ENUM_VALUES,
      `must be a list of 1 to ${MAX_ENUM_VALUES} values`,
    ),
  ],
  ['const', anything],
  ['minimum', number],
  ['maximum', number],
  ['exclusiveMinimum', number],
  ['exclusiveMaximum', number],
  ['multipleOf', expecting((value) => typeof value === 'number' && value > 0, 'must be a number above 0')],
  ['minLength', count],
  ['maxLength', count],
  ['minItems', count],
  ['maxItems', count],
  ['title', text],
  ['description', text],
  ['unit', unit],
  ['default', anything],
  // JSON Schema 2020-12, Validation 9.4. Of all parameters it is refused: a single one is named.
  [
    'writeOnly',
    (value, _schema, at, level, report) => {
      if (typeof value !== 'boolean') report(at, 'must be true or false');
      else if (value && level === 1) report(at, 'is not supported here: mark the parameters in properties');
    },
  ],
]);

function requiredRule(value: Json, schema: JsonObject, at: string, level: number, report: Report): void {
  if (!Array.isArray(value) || !value.every((name) => typeof name === 'string')) {
    report(at, 'must be a list of property names');
    return;
  }
  if (new Set(value).size !== value.length) report(at, 'lists a property twice');
  const listed = isObject(schema.properties) ? schema.properties : {};
  if (unlisted(schema, level === 1) !== false) return;
  for (const name of value) {
    if (!Object.hasOwn(listed, name)) report(at, `'${name}' is not listed in properties`);
  }
}

function inspect(schema: Json, at: string, level: number, report: Report): void {
  if (!isObject(schema) || level > MAX_SCHEMA_LEVELS) {
    report(at, isObject(schema) ? `is more than ${MAX_SCHEMA_LEVELS} levels deep` : 'must be a schema (an object)');
    return;
  }
  for (const keyword of Object.keys(schema)) {
    const rule = keywords.get(keyword);
    if (rule === undefined) report(`${at}.${keyword}`, 'is not a supported keyword');
    else rule(schema[keyword] as Json, schema, `${at}.${keyword}`, level, report);
  }
}

/**
 * Which unlisted properties an object may have: none (false), any (true), or those that match a schema. Unknown
 * parameters are refused, so the root is closed unless a schema describes the others. Within a parameter, an object
 * that lists its properties is closed unless `additionalProperties` opens it.
 */
export function unlisted(schema: JsonObject, root: boolean): boolean | JsonObject {
  const { additionalProperties } = schema;
  if (isObject(additionalProperties)) return additionalProperties;
  return root ? false : ((additionalProperties as boolean | undefined) ?? schema.properties === undefined);
}

/** The errors of `params` against a schema that passed `schemaErrors`; at most 20. */
export function checkParams(schema: JsonObject, params: Json, path = 'params'): FieldError[] {
  if (!isObject(params)) return [{ path, message: 'must be an object' }];
  if (jsonBytes(params) > MAX_PARAMS_BYTES) return [{ path, message: `is over ${MAX_PARAMS_BYTES} bytes` }];
  const errors: FieldError[] = [];
  check(schema, params, path, true, errors);
  return errors;
}

/** Whether `value` is valid against a schema that passed `schemaErrors`; `root`: it is the object of all parameters. */
export function isValid(schema: JsonObject, value: Json, root: boolean): boolean {
  const errors: FieldError[] = [];
  if (root && !isObject(value)) return false;
  check(schema, value, '', root, errors);
  return errors.length === 0;
}

function check(schema: JsonObject, value: Json, at: string, root: boolean, errors: FieldError[]): void {
  if (errors.length >= MAX_ERRORS) return;
  const addError = (message: string) => {
    if (errors.length < MAX_ERRORS) errors.push({ path: at, message });
  };
  const { type, enum: allowed, const: only } = schema;
  if (schema.writeOnly === true && isWriteOnlyMask(value)) {
    addError('is not shown, and this stands for its value: give the value');
    return;
  }
  if (type !== undefined && ![type].flat().some((name) => hasType(value, name as string))) {
    addError(`must be ${[type].flat().join(' or ')}`);
    return;
  }
  if (Array.isArray(allowed) && !allowed.some((one) => jsonEqual(one, value)))
    addError('is not one of the allowed values');
  if (only !== undefined && !jsonEqual(only, value)) addError('is not the allowed value');
  if (typeof value === 'number') checkNumber(schema, value, addError);
  else if (typeof value === 'string') checkLength(schema, value, addError);
  else if (Array.isArray(value)) checkItems(schema, value, at, addError, errors);
  else if (isObject(value)) checkProperties(schema, value, at, root, errors);
}

function hasType(value: Json, name: string): boolean {
  switch (name) {
    case 'integer':
      return Number.isInteger(value);
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isObject(value);
    default:
      return typeof value === name;
  }
}

const bound = (schema: JsonObject, keyword: string): number | undefined => schema[keyword] as number | undefined;

function checkNumber(schema: JsonObject, value: number, addError: (message: string) => void): void {
  const [minimum, maximum] = [bound(schema, 'minimum'), bound(schema, 'maximum')];
  const [above, below] = [bound(schema, 'exclusiveMinimum'), bound(schema, 'exclusiveMaximum')];
  const step = bound(schema, 'multipleOf');
  if (minimum !== undefined && value < minimum) addError(`must be at least ${minimum}`);
  if (maximum !== undefined && value > maximum) addError(`must be at most ${maximum}`);
  if (above !== undefined && value <= above) addError(`must be above ${above}`);
  if (below !== undefined && value >= below) addError(`must be below ${below}`);
  if (step !== undefined && !isMultiple(value, step)) addError(`must be a multiple of ${step}`);
}

function checkLength(schema: JsonObject, value: string, addError: (message: string) => void): void {
  const [shortest, longest] = [bound(schema, 'minLength'), bound(schema, 'maxLength')];
  if (shortest === undefined && longest === undefined) return;
  let length = 0;
  for (const _ of value) length += 1; // code points, as JSON Schema counts
  if (shortest !== undefined && length < shortest) addError(`must have at least ${shortest} characters`);
  if (longest !== undefined && length > longest) addError(`must have at most ${longest} characters`);
}

function checkItems(
  schema: JsonObject,
  value: Json[],
  at: string,
  addError: (message: string) => void,
  errors: FieldError[],
): void {
  const [fewest, most] = [bound(schema, 'minItems'), bound(schema, 'maxItems')];
  if (fewest !== undefined && value.length < fewest) addError(`must have at least ${fewest} items`);
  if (most !== undefined && value.length > most) addError(`must have at most ${most} items`);
  if (!isObject(schema.items)) return;
  for (const [index, item] of value.entries()) {
    if (errors.length >= MAX_ERRORS) return;
    check(schema.items, item, `${at}.${index}`, false, errors);
  }
}

function checkProperties(schema: JsonObject, value: JsonObject, at: string, root: boolean, errors: FieldError[]): void {
  const listed = isObject(schema.properties) ? schema.properties : {};
  const others = unlisted(schema, root);
  for (const name of (schema.required ?? []) as string[]) {
    if (!Object.hasOwn(value, name)) errors.push({ path: `${at}.${name}`, message: 'is required' });
  }
  for (const name of Object.keys(value)) {
    if (errors.length >= MAX_ERRORS) break;
    const item = value[name] as Json;
    if (Object.hasOwn(listed, name)) check(listed[name] as JsonObject, item, `${at}.${name}`, false, errors);
    else if (isObject(others)) check(others, item, `${at}.${name}`, false, errors);
    else if (!others) errors.push({ path: `${at}.${name}`, message: 'unknown field' });
  }
  errors.splice(MAX_ERRORS);
}

/** Whether `value` is a multiple of `step` in decimal arithmetic, so that 0.3 is a multiple of 0.1. */
export function isMultiple(value: number, step: number): boolean {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(step)) return value % step === 0;
  const [a, b] = [decimal(value), decimal(step)];
  const exponent = Math.min(a.exponent, b.exponent);
  return scaled(a, exponent) % scaled(b, exponent) === 0n;
}

interface Decimal {
  digits: bigint;
  /** Power of ten. For a double it is between -324 and 308, which bounds the size of scaled numbers. */
  exponent: number;
}

function decimal(value: number): Decimal {
  const [mantissa = '', power = '0'] = value.toExponential().split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  return { digits: BigInt(whole + fraction), exponent: Number(power) - fraction.length };
}

const scaled = ({ digits, exponent }: Decimal, to: number): bigint => digits * 10n ** BigInt(exponent - to);
