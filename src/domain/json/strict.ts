import type { Json, JsonObject } from '../values.ts';
import { scanJson } from './canonical-scan.ts';

/** Maximum nesting of objects and arrays; the root is the first level (contract §2, §4). */
export const MAX_JSON_DEPTH = 32;

export interface JsonLimits {
  maxDepth?: number;
}

export interface JsonOptions extends JsonLimits {
  /** Name (ASCII) of a root member whose bytes are returned if they are already its canonical form. */
  canonical?: string | null;
}

/**
 * Result of strict parsing. A refused text that a lenient parser would accept comes with that parser's value
 * (`lenient`), which may be used to answer the sender, never to act on.
 */
export type JsonParseResult =
  | {
      ok: true;
      value: Json;
      /** The bytes of the requested member, if they are known to be its RFC 8785 form. */
      canonical?: Uint8Array;
    }
  | { ok: false; reason: string; lenient?: unknown };

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Parses JSON strictly: refuses invalid UTF-8, malformed JSON, repeated keys, U+0000 and lone surrogates in any string
 * or key, numbers too large for a double, and nesting beyond the limit. A key `__proto__` is an ordinary own property.
 */
export function parseJson(input: string | Uint8Array, options: JsonOptions = {}): JsonParseResult {
  let text: string;
  if (typeof input === 'string') {
    text = input;
  } else {
    try {
      text = utf8.decode(input);
    } catch {
      return { ok: false, reason: 'not valid UTF-8', lenient: parseLeniently(new TextDecoder().decode(input)) };
    }
  }
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    return { ok: false, reason: 'not valid JSON' };
  }
  const isText = typeof input === 'string';
  // Not for string input: encoding it to bytes would hide lone surrogates.
  const wantedMember = isText ? null : (options.canonical ?? null);
  const bytes = isText ? Buffer.from(input) : input;
  const { members, depth, canonical } = scanJson(bytes, wantedMember);
  if (depth > (options.maxDepth ?? MAX_JSON_DEPTH)) {
    return { ok: false, reason: 'nested too deeply', lenient: value };
  }
  // Decoded bytes are well-formed and a raw U+0000 is not valid JSON, so only an escape can produce either error.
  const walk: Walk = { checkStrings: isText || text.includes('\\u'), members: 0 };
  if (canonical !== null) {
    // A canonical member contains no number out of range, no escapes and no repeated keys.
    const sound = errorOutside(wantedMember as string, value as JsonObject, walk) === null && walk.members === members;
    if (sound) return { ok: true, value, canonical: bytes.subarray(canonical.from, canonical.to) };
    return parseJson(input, { ...options, canonical: null });
  }
  const error = errorIn(value, walk);
  if (error !== null) return { ok: false, reason: error, lenient: value };
  // JSON.parse keeps the last of repeated keys, so the text then has more members than the value.
  if (walk.members !== members) return { ok: false, reason: 'a key is repeated', lenient: value };
  return { ok: true, value };
}

/** Parses an object found by `canonicalEnd`; null if it is not valid JSON. `parseJson` would accept every result. */
export function parseCanonical(bytes: Uint8Array): JsonObject | null {
  try {
    return JSON.parse(utf8.decode(bytes)) as JsonObject;
  } catch {
    return null;
  }
}

/** Checks a value from another parser by the same rules; repeated keys can no longer be detected. */
export function checkJson(value: unknown, limits: JsonLimits = {}): { ok: true } | { ok: false; reason: string } {
  const error = deepErrorIn(value, limits.maxDepth ?? MAX_JSON_DEPTH);
  return error === null ? { ok: true } : { ok: false, reason: error };
}

function parseLeniently(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

interface Walk {
  checkStrings: boolean;
  /** Object members visited so far. */
  members: number;
}

/** The first error in a value from JSON.parse whose depth is bounded. Runs for every message. */
function errorIn(value: Json, walk: Walk): string | null {
  if (typeof value === 'string') return walk.checkStrings ? stringError(value) : null;
  if (typeof value === 'number') return Number.isFinite(value) ? null : 'a number is out of range';
  if (value === null || typeof value !== 'object') return null;
  if (Array.isArray(value)) {
    for (const item of value) {
      const error = errorIn(item, walk);
      if (error !== null) return error;
    }
    return null;
  }
  for (const key in value) {
    walk.members++;
    const error = (walk.checkStrings ? stringError(key) : null) ?? errorIn(value[key] as Json, walk);
    if (error !== null) return error;
  }
  return null;
}

/** The first error in the root's members other than `known`. */
function errorOutside(known: string, root: JsonObject, walk: Walk): string | null {
  for (const key in root) {
    walk.members++;
    if (key === known) continue;
    const error = (walk.checkStrings ? stringError(key) : null) ?? errorIn(root[key] as Json, walk);
    if (error !== null) return error;
  }
  return null;
}

function stringError(text: string): string | null {
  if (text.includes('\0')) return 'a string contains U+0000';
  return text.isWellFormed() ? null : 'a string contains a lone surrogate';
}

function deepErrorIn(value: unknown, levels: number): string | null {
  if (typeof value === 'string') return stringError(value);
  if (typeof value === 'number') return Number.isFinite(value) ? null : 'a number is out of range';
  if (value === null || typeof value === 'boolean') return null;
  if (typeof value !== 'object') return `a ${typeof value} is not valid JSON`;
  if (levels === 0) return 'nested too deeply';
  if (Array.isArray(value)) {
    for (const item of value) {
      const error = deepErrorIn(item, levels - 1);
      if (error !== null) return error;
    }
    return null;
  }
  for (const [key, item] of Object.entries(value)) {
    const error = stringError(key) ?? deepErrorIn(item, levels - 1);
    if (error !== null) return error;
  }
  return null;
}
