import type { JsonValue } from '../model.ts';
import { isObject } from '../schema.ts';

// What devices and people wrote, made fit to be shown to a language model: data, never an instruction.

/** Control characters, what turns the direction of writing, what has no width, and Unicode's invisible copy of ASCII. */
const UNSEEN = /[\p{Cc}\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]+/gu;

/** One line, without what a person would not see. */
export function clean(text: string, most: number): string {
  const line = text.replace(UNSEEN, ' ').trim();
  return (line.length > most ? `${line.slice(0, most)}…` : line).toWellFormed();
}

const STRING = 200;
const ITEMS = 50;
const DEPTH = 5;

function cleaned(value: JsonValue, depth: number): JsonValue {
  if (typeof value === 'string') return clean(value, STRING);
  if (depth >= DEPTH && typeof value === 'object' && value !== null) return '…';
  if (Array.isArray(value)) return value.slice(0, ITEMS).map((item) => cleaned(item, depth + 1));
  if (!isObject(value)) return value;
  const members = Object.entries(value).slice(0, ITEMS);
  return Object.fromEntries(members.map(([name, inner]) => [clean(name, STRING), cleaned(inner, depth + 1)]));
}

const TOO_LARGE = 'too large to be shown';

/** JSON of at most `most` characters, in which nothing can look like the mark around it. */
export function dataOf(value: JsonValue, most: number): string {
  const json = JSON.stringify(cleaned(value, 0)).replaceAll('<', '\\u003c');
  return json.length <= most ? json : JSON.stringify(TOO_LARGE);
}

/** The value with its texts cut, or a word about its size. */
export function small(value: JsonValue, most: number): JsonValue {
  const short = cleaned(value, 0);
  return JSON.stringify(short).length <= most ? short : TOO_LARGE;
}

/** The mark; the prompt says what it means. */
export const marked = (json: string): string => `<data>\n${json}\n</data>`;
