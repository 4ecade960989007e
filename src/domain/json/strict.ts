import type { Json, JsonObject } from '../values.ts';
import { scanJson } from './canonical-scan.ts';

/** Levels of objects and arrays a document may have, its root counted as the first (contract §2, §4). */
export const MAX_JSON_DEPTH = 32;

export interface JsonLimits {
  maxDepth?: number;
}

export interface JsonOptions extends JsonLimits {
  /** The name of a member of the root, in plain ASCII, whose canonical form will be asked for. */
  canonical?: string | null;
}

/**
 * What a strict reader makes of a text. A refused text that a lenient reader would still take comes with what that
 * reader would have seen (`lenient`): good for telling the sender, never for acting on.
 */
export type JsonParseResult =
  | {
      ok: true;
      value: Json;
      /** The bytes of the member that was wished for, where they are known to be its RFC 8785 form as they stand. */
      canonical?: Uint8Array;
    }
  | { ok: false; reason: string; lenient?: unknown };

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Reads JSON strictly: refuses invalid UTF-8, malformed JSON, repeated keys, U+0000 and lone surrogates in any string
 * or key, numbers too large for a double, and nesting beyond the limit. A key `__proto__` is plain own data.
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
  // No claims about a text: what is not well-formed in it would look so in its bytes.
  const wished = isText ? null : (options.canonical ?? null);
  const bytes = isText ? Buffer.from(input) : input;
  const { members, depth, canonical } = scanJson(bytes, wished);
  if (depth > (options.maxDepth ?? MAX_JSON_DEPTH)) {
    return { ok: false, reason: 'nested too deeply', lenient: value };
  }
  // Bytes that decoded are well formed and a raw U+0000 is no JSON, so only an escape can bring in either.
  const walk: Walk = { checkStrings: isText || text.includes('\\u'), members: 0 };
  if (canonical !== null) {
    // In what is canonical no number is too large, nothing is escaped and no key stands twice.
    const sound = faultBeside(wished as string, value as JsonObject, walk) === null && walk.members === members;
    if (sound) return { ok: true, value, canonical: bytes.subarray(canonical.from, canonical.to) };
    return parseJson(input, { ...options, canonical: null });
  }
  const fault = faultOf(value, walk);
  if (fault !== null) return { ok: false, reason: fault, lenient: value };
  // JSON.parse keeps the last of repeated keys: then the text has more members than the value.
  if (walk.members !== members) return { ok: false, reason: 'a key is repeated', lenient: value };
  return { ok: true, value };
}

/** What `canonicalEnd` found, where JSON.parse takes it; else null. Nothing that `parseJson` refuses is in it. */
export function parseCanonical(bytes: Uint8Array): JsonObject | null {
  try {
    return JSON.parse(utf8.decode(bytes)) as JsonObject;
  } catch {
    return null;
  }
}

/** The same rules for a value that something else has parsed; a repeated key can no longer be seen. */
export function checkJson(value: unknown, limits: JsonLimits = {}): { ok: true } | { ok: false; reason: string } {
  const fault = deepFaultOf(value, limits.maxDepth ?? MAX_JSON_DEPTH);
  return fault === null ? { ok: true } : { ok: false, reason: fault };
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
  /** Members of objects met so far. */
  members: number;
}

/** The first fault in a value that JSON.parse made and whose depth is known to be bounded. Runs for every message. */
function faultOf(value: Json, walk: Walk): string | null {
  if (typeof value === 'string') return walk.checkStrings ? stringFault(value) : null;
  if (typeof value === 'number') return Number.isFinite(value) ? null : 'a number is out of range';
  if (value === null || typeof value !== 'object') return null;
  if (Array.isArray(value)) {
    for (const item of value) {
      const fault = faultOf(item, walk);
      if (fault !== null) return fault;
    }
    return null;
  }
  for (const key in value) {
    walk.members++;
    const fault = (walk.checkStrings ? stringFault(key) : null) ?? faultOf(value[key] as Json, walk);
    if (fault !== null) return fault;
  }
  return null;
}

/** The first fault in all members of the root but `known`. */
function faultBeside(known: string, root: JsonObject, walk: Walk): string | null {
  for (const key in root) {
    walk.members++;
    if (key === known) continue;
    const fault = (walk.checkStrings ? stringFault(key) : null) ?? faultOf(root[key] as Json, walk);
    if (fault !== null) return fault;
  }
  return null;
}

function stringFault(text: string): string | null {
  if (text.includes('\0')) return 'a string holds U+0000';
  return text.isWellFormed() ? null : 'a string holds a lone surrogate';
}

function deepFaultOf(value: unknown, levels: number): string | null {
  if (typeof value === 'string') return stringFault(value);
  if (typeof value === 'number') return Number.isFinite(value) ? null : 'a number is out of range';
  if (value === null || typeof value === 'boolean') return null;
  if (typeof value !== 'object') return `a ${typeof value} is no JSON`;
  if (levels === 0) return 'nested too deeply';
  if (Array.isArray(value)) {
    for (const item of value) {
      const fault = deepFaultOf(item, levels - 1);
      if (fault !== null) return fault;
    }
    return null;
  }
  for (const [key, item] of Object.entries(value)) {
    const fault = stringFault(key) ?? deepFaultOf(item, levels - 1);
    if (fault !== null) return fault;
  }
  return null;
}
