import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import { isObject, setOwn } from '../../domain/json/value.ts';
import type { Json, JsonObject } from '../../domain/values.ts';

// Sanitizes texts of devices and users for a language model: limits their length and removes invisible characters.

/** Characters of one text; equals the limit of a memory's content. */
const MAX_TEXT = 4_096;
const MAX_NAME = 256;

/**
 * Control characters except line breaks and tabs, bidirectional overrides, zero-width characters that no script needs,
 * and characters that can encode hidden text: Unicode tags and the supplementary variation selectors.
 */
const INVISIBLE_CHARACTERS =
  /[\u202a-\u202e]|[\u00ad\u200b\u2060-\u206f\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]|[\p{Cc}--[\n\t]]/gv;

/** Fast path: most texts are printable ASCII and need no replacement. */
const ASCII = /^[\x20-\x7e]*$/;

export function sanitizeText(text: string, max = MAX_TEXT): string {
  if (text.length <= max && ASCII.test(text)) return text;
  const visible = text.replace(INVISIBLE_CHARACTERS, '');
  return visible.length <= max ? visible : `${visible.slice(0, max - 1).toWellFormed()}…`;
}

/** Sanitizes all texts of an answer, including member names. Returns the same object if nothing had to be changed. */
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

/** Member names known to be clean: answers have few different names. */
const sanitizedNames = new Set<string>();

export const sizes = (): CollectionSizes => ({ mcp_plain_names: sanitizedNames.size });
const MAX_CACHED_NAMES = 1_000;

function isSanitizedName(name: string): boolean {
  if (sanitizedNames.has(name)) return true;
  const isClean = sanitizeText(name, MAX_NAME) === name;
  if (isClean && sanitizedNames.size < MAX_CACHED_NAMES) sanitizedNames.add(name);
  return isClean;
}

function sanitizeValue(value: Json): Json {
  if (typeof value === 'string') return sanitizeText(value);
  if (Array.isArray(value)) return value.map(sanitizeValue);
  if (!isObject(value)) return value;
  const sanitized: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    const key = sanitizeText(name, MAX_NAME);
    // Of two names that differ only in invisible characters the first one is kept.
    if (!Object.hasOwn(sanitized, key)) setOwn(sanitized, key, sanitizeValue(member));
  }
  return sanitized;
}

/**
 * JSON between data marks, for texts of devices and users. `<` is escaped, so that the content cannot close the mark;
 * the JSON stays equivalent.
 */
export const wrapAsData = (value: Json): string =>
  `<twinkeep-data>${JSON.stringify(value).replaceAll('<', '\\u003c')}</twinkeep-data>`;
