import { isObject } from '../json-schema.ts';
import type { JsonValue } from '../planner-types.ts';

// Sanitizes texts of devices and users for a language model: bounded, without invisible characters, marked as data.

/**
 * Control characters, bidirectional overrides, zero-width characters, and Unicode tags (an invisible copy of ASCII).
 */
const INVISIBLE_CHARACTERS = /[\p{Cc}\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]+/gu;

/** One line without invisible characters. */
export function sanitizeLine(text: string, max: number): string {
  const line = text.replace(INVISIBLE_CHARACTERS, ' ').trim();
  return (line.length > max ? `${line.slice(0, max)}…` : line).toWellFormed();
}

const MAX_STRING = 200;
const MAX_ITEMS = 50;
const MAX_DEPTH = 5;

function sanitizeValue(value: JsonValue, depth: number): JsonValue {
  if (typeof value === 'string') return sanitizeLine(value, MAX_STRING);
  if (depth >= MAX_DEPTH && typeof value === 'object' && value !== null) return '…';
  if (Array.isArray(value)) return value.slice(0, MAX_ITEMS).map((item) => sanitizeValue(item, depth + 1));
  if (!isObject(value)) return value;
  const members = Object.entries(value).slice(0, MAX_ITEMS);
  return Object.fromEntries(
    members.map(([name, inner]) => [sanitizeLine(name, MAX_STRING), sanitizeValue(inner, depth + 1)]),
  );
}

const TOO_LARGE = 'too large to be shown';

/** JSON of at most `max` characters. `<` is escaped, so that the content cannot close the data mark. */
export function sanitizedJson(value: JsonValue, max: number): string {
  const json = JSON.stringify(sanitizeValue(value, 0)).replaceAll('<', '\\u003c');
  return json.length <= max ? json : JSON.stringify(TOO_LARGE);
}

/** The value with its texts cut, or a notice if it is still too large. */
export function sanitizeBounded(value: JsonValue, max: number): JsonValue {
  const sanitized = sanitizeValue(value, 0);
  return JSON.stringify(sanitized).length <= max ? sanitized : TOO_LARGE;
}

/** The data mark. The system prompt explains it. */
export const markAsData = (json: string): string => `<data>\n${json}\n</data>`;
