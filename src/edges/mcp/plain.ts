import { isObject, setOwn } from '../../domain/json-size.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

// What devices and users wrote, on its way to a language model: bounded, and without what a person would not see in it.

/** Characters of one text; a memory's content just fits. */
const MAX_TEXT = 4_096;
const MAX_NAME = 256;

/**
 * Control characters but line breaks and tabs, characters that turn the direction of what is read, and those that can spell
 * a hidden text: Unicode's tags and the variation selectors of its supplement.
 */
const UNSEEN = /[\u202a-\u202e\u2066-\u2069]|[\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]|[\p{Cc}--[\n\t]]/gv;

export function plainText(text: string, max = MAX_TEXT): string {
  const seen = text.replace(UNSEEN, '');
  return seen.length <= max ? seen : `${seen.slice(0, max - 1).toWellFormed()}…`;
}

/** The same for every text in an answer, the names of members too. */
export function plain(value: Json): Json {
  if (typeof value === 'string') return plainText(value);
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  const made: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    const shown = plainText(name, MAX_NAME);
    // Two names that differ in what nobody sees: the first one stays.
    if (!Object.hasOwn(made, shown)) setOwn(made, shown, plain(member));
  }
  return made;
}

/**
 * JSON between marks that nothing inside can close: what stands there was written by devices and users, and is data. Without
 * `<` the text is the same JSON.
 */
export const marked = (value: Json): string =>
  `<twinkeep-data>${JSON.stringify(value).replaceAll('<', '\\u003c')}</twinkeep-data>`;
