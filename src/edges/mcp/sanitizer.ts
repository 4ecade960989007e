import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { isObject, setOwn } from '../../domain/json/value.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

// What devices and users wrote, on its way to a language model: bounded, and without what a person would not see in it.

/** Characters of one text; a memory's content just fits. */
const MAX_TEXT = 4_096;
const MAX_NAME = 256;

/**
 * Control characters but line breaks and tabs, characters that turn the direction of what is read, those without a width that
 * no script needs, and those that can spell a hidden text: Unicode's tags and the variation selectors of its supplement.
 */
const INVISIBLE_CHARACTERS =
  /[\u202a-\u202e]|[\u00ad\u200b\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]|[\p{Cc}--[\n\t]]/gv;

/** Most texts are this, and then nothing has to be looked for. */
const ASCII = /^[\x20-\x7e]*$/;

export function sanitizeText(text: string, max = MAX_TEXT): string {
  if (text.length <= max && ASCII.test(text)) return text;
  const seen = text.replace(INVISIBLE_CHARACTERS, '');
  return seen.length <= max ? seen : `${seen.slice(0, max - 1).toWellFormed()}…`;
}

/** The same for every text in an answer, the names of members too; an answer in which nothing is amiss stays the same object. */
export const sanitizeJson = (value: Json): Json => (isSanitized(value) ? value : sanitizeValue(value));

function isSanitized(value: Json): boolean {
  if (typeof value === 'string') return sanitizeText(value) === value;
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isSanitized);
  for (const name in value) {
    if (!isSanitizedName(name) || !isSanitized(value[name] as Json)) return false;
  }
  return true;
}

/** The names that answers have are few, and met again and again. */
const sanitizedNames = new Set<string>();

export const sizes = (): CollectionSizes => ({ mcp_plain_names: sanitizedNames.size });
const MAX_CACHED_NAMES = 1_000;

function isSanitizedName(name: string): boolean {
  if (sanitizedNames.has(name)) return true;
  const is = sanitizeText(name, MAX_NAME) === name;
  if (is && sanitizedNames.size < MAX_CACHED_NAMES) sanitizedNames.add(name);
  return is;
}

function sanitizeValue(value: Json): Json {
  if (typeof value === 'string') return sanitizeText(value);
  if (Array.isArray(value)) return value.map(sanitizeValue);
  if (!isObject(value)) return value;
  const shown: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    const known = sanitizeText(name, MAX_NAME);
    // Two names that differ in what nobody sees: the first one stays.
    if (!Object.hasOwn(shown, known)) setOwn(shown, known, sanitizeValue(member));
  }
  return shown;
}

/**
 * JSON between marks that nothing inside can close: what stands there was written by devices and users, and is data. Without
 * `<` the text is the same JSON; beyond `max` characters it is cut.
 */
export function wrapAsData(value: Json, max = Number.POSITIVE_INFINITY): { text: string; cut: boolean } {
  const json = JSON.stringify(value);
  const cut = json.length > max;
  // With an ellipsis in place of the dots the whole answer would be held, and written, as text of two bytes a character.
  const shown = (cut ? `${json.slice(0, max - 3).toWellFormed()}...` : json).replaceAll('<', '\\u003c');
  return { text: `<twinkeep-data>${shown}</twinkeep-data>`, cut };
}
