import type { Json, JsonObject } from '../values.ts';
import { MAX_JSON_DEPTH } from './strict.ts';

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Bytes of `value`'s JSON text in UTF-8, without building the text. Infinity if nested deeper than `MAX_JSON_DEPTH`.
 */
export function jsonBytes(value: Json, depth = 0): number {
  if (typeof value === 'string') return textBytes(value);
  if (typeof value === 'number') return `${value}`.length;
  if (typeof value === 'boolean') return value ? 4 : 5;
  if (value === null) return 4;
  if (depth >= MAX_JSON_DEPTH) return Number.POSITIVE_INFINITY;
  let bytes = 1; // the opening bracket; each entry adds a comma or the closing bracket
  if (Array.isArray(value)) {
    for (const item of value) bytes += jsonBytes(item, depth + 1) + 1;
  } else {
    for (const key of Object.keys(value)) bytes += entryBytes(key, value[key] as Json, depth);
  }
  return Math.max(2, bytes);
}

/** Bytes that a property adds to its object, including its comma or the closing brace. `depth` is the object's. */
export const entryBytes = (key: string, value: Json, depth: number): number =>
  textBytes(key) + 1 + jsonBytes(value, depth + 1) + 1;

// Most keys and values are short ASCII without escapes; counting those directly takes a quarter of the time of
// `stringify`.
function textBytes(text: string): number {
  if (text.length > 64) return stringifiedBytes(text);
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code < 0x20 || code === 0x22 || code === 0x5c || code > 0x7e) return stringifiedBytes(text);
  }
  return text.length + 2;
}

const stringifiedBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text));

/** JSON equality: property order does not matter, `1` and `1.0` are the same number, nothing is coerced. */
export function jsonEqual(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, index) => jsonEqual(item, b[index] as Json));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && jsonEqual(a[key] as Json, b[key] as Json))
  );
}

/** Sets an own property of any name: a plain assignment of `__proto__` would change the prototype instead. */
export function setOwn(target: JsonObject, key: string, value: Json): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  } else {
    target[key] = value;
  }
}
