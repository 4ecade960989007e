import { isObject } from '../json-schema.ts';
import type { JsonValue } from '../planner-types.ts';

// What devices and people wrote, made fit to be shown to a language model: data, never an instruction.

/** Control characters, what turns the direction of writing, what has no width, and Unicode's invisible copy of ASCII. */
const INVISIBLE_CHARACTERS = /[\p{Cc}\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]+/gu;

/** One line, without what a person would not see. */
export function sanitizeLine(text: string, most: number): string {
  const line = text.replace(INVISIBLE_CHARACTERS, ' ').trim();
  return (line.length > most ? `${line.slice(0, most)}…` : line).toWellFormed();
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

/** JSON of at most `most` characters, in which nothing can look like the mark around it. */
export function sanitizedJson(value: JsonValue, most: number): string {
  const json = JSON.stringify(sanitizeValue(value, 0)).replaceAll('<', '\\u003c');
  return json.length <= most ? json : JSON.stringify(TOO_LARGE);
}

/** The value with its texts cut, or a word about its size. */
export function sanitizeBounded(value: JsonValue, most: number): JsonValue {
  const short = sanitizeValue(value, 0);
  return JSON.stringify(short).length <= most ? short : TOO_LARGE;
}

/** The mark; the prompt says what it means. */
export const wrapAsData = (json: string): string => `<data>\n${json}\n</data>`;
