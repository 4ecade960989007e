// Scans JSON bytes for properties that the parsed value no longer shows: repeated keys and canonical form. The results
// hold only for texts that JSON.parse accepts, called before or after. It scans bytes, because JSON's structural
// characters are ASCII and V8 reads a byte several times faster than a character of a string.

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const FALSE = 0x66;
const NULL = 0x6e;
const TRUE = 0x74;
const OPEN = 0x7b;
const CLOSE = 0x7d;
const LAST_ASCII = 0x7f;

/** Returned instead of an index: the text is not known to be canonical. */
export const NO_MATCH = -1;
/** Recursion limit: above every depth limit, below the stack's capacity. */
const MAX_LEVELS = 64;

export interface Scan {
  /** Members of all objects, counting repeated keys each time, without those inside `canonical`. */
  members: number;
  /** Maximum nesting; the root is the first level. */
  depth: number;
  /** Position of the named root member, if it is an object known to be in its RFC 8785 form. */
  canonical: { from: number; to: number } | null;
}

/**
 * Measures a JSON text and checks whether the root's member `name` (ASCII; null for none) is an object in canonical
 * form. `canonical` is null if that is unknown: forms that are expensive to check are not decided.
 */
export function scanJson(bytes: Uint8Array, name: string | null): Scan {
  const scan: Scan = { members: 0, depth: 0, canonical: null };
  let level = 0;
  let opened = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      opened = at;
      // Skip the string's characters.
      for (at++; bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++;
    } else if (byte === COLON) {
      scan.members++;
      if (name === null || level !== 1 || bytes[at + 1] !== OPEN || !isKey(bytes, opened, at, name)) continue;
      const end = objectEnd(bytes, at + 1, 2, scan);
      if (end === NO_MATCH) continue;
      scan.canonical = { from: at + 1, to: end };
      at = end - 1;
    } else if (byte === OPEN || byte === OPEN_LIST) {
      level++;
      if (level > scan.depth) scan.depth = level;
    } else if (byte === CLOSE || byte === CLOSE_LIST) {
      level--;
    }
  }
  return scan;
}

/** Scratch object of `canonicalEnd`, which is synchronous, so calls never overlap. */
const scratchScan: Scan = { members: 0, depth: 0, canonical: null };

/**
 * The index after the object at `start` (on the second level), if it is canonical and nested within `maxDepth`,
 * provided that JSON.parse accepts it; otherwise `NO_MATCH`. Accepts arbitrary bytes.
 */
export function canonicalEnd(bytes: Uint8Array, start: number, maxDepth: number): number {
  scratchScan.depth = 0;
  const end = bytes[start] === OPEN ? objectEnd(bytes, start, 2, scratchScan) : NO_MATCH;
  return scratchScan.depth > maxDepth ? NO_MATCH : end;
}

/** Whether exactly the string `name`, opened at `opened`, precedes the colon at `colon`. */
function isKey(bytes: Uint8Array, opened: number, colon: number, name: string): boolean {
  if (colon - opened !== name.length + 2) return false;
  for (let i = 0; i < name.length; i++) if (bytes[opened + 1 + i] !== name.charCodeAt(i)) return false;
  return true;
}

/** The index after the canonical object at `start`. */
function objectEnd(bytes: Uint8Array, start: number, level: number, scan: Scan): number {
  if (level > MAX_LEVELS) return NO_MATCH;
  if (level > scan.depth) scan.depth = level;
  let at = start;
  if (bytes[at + 1] === CLOSE) return at + 2;
  let last = NO_MATCH;
  for (;;) {
    if (bytes[at + 1] !== QUOTE) return NO_MATCH;
    const key = at + 2;
    at = keyEnd(bytes, key, last);
    last = key;
    if (at === NO_MATCH || bytes[at + 1] !== COLON) return NO_MATCH;
    at = valueEnd(bytes, at + 2, level, scan);
    if (at === NO_MATCH || bytes[at] === CLOSE) return at === NO_MATCH ? at : at + 1;
    if (bytes[at] !== COMMA) return NO_MATCH;
  }
}

function listEnd(bytes: Uint8Array, start: number, level: number, scan: Scan): number {
  if (level > MAX_LEVELS) return NO_MATCH;
  if (level > scan.depth) scan.depth = level;
  let at = start;
  if (bytes[at + 1] === CLOSE_LIST) return at + 2;
  for (;;) {
    at = valueEnd(bytes, at + 1, level, scan);
    if (at === NO_MATCH || bytes[at] === CLOSE_LIST) return at === NO_MATCH ? at : at + 1;
    if (bytes[at] !== COMMA) return NO_MATCH;
  }
}

/**
 * The index of the quote that ends the key at `start`, if it sorts strictly after the key at `last` (`NO_MATCH` for
 * none), so repeated keys do not match. RFC 8785 orders keys by UTF-16 units, which is byte order for ASCII; other keys
 * are not decided here.
 */
function keyEnd(bytes: Uint8Array, start: number, last: number): number {
  const { length } = bytes;
  let at = start;
  if (last !== NO_MATCH) {
    let before = last;
    // The common prefix was already checked as part of the previous key.
    while (bytes[at] === bytes[before] && bytes[at] !== QUOTE) {
      at++;
      before++;
    }
    if (bytes[at] === QUOTE) return NO_MATCH;
    if (bytes[before] !== QUOTE && (bytes[at] as number) < (bytes[before] as number)) return NO_MATCH;
  }
  for (; at < length; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH || byte > LAST_ASCII) return NO_MATCH;
  }
  return NO_MATCH;
}

function valueEnd(bytes: Uint8Array, start: number, level: number, scan: Scan): number {
  const first = bytes[start] as number;
  if (first === QUOTE) return textEnd(bytes, start + 1);
  if (first === OPEN) return objectEnd(bytes, start, level + 1, scan);
  if (first === OPEN_LIST) return listEnd(bytes, start, level + 1, scan);
  if (first === TRUE || first === NULL) return start + 4;
  if (first === FALSE) return start + 5;
  return numberEnd(bytes, start);
}

/** The index after the closing quote. A backslash is not decided: an escape may or may not be canonical. */
function textEnd(bytes: Uint8Array, start: number): number {
  const { length } = bytes;
  for (let at = start; at < length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) return at + 1;
    if (byte === BACKSLASH) return NO_MATCH;
  }
  return NO_MATCH;
}

/**
 * The index after a number in ECMAScript's form: a decimal of up to 15 digits without trailing zeros in the fraction,
 * so that no shorter decimal has the same value, and not so small that ECMAScript would write an exponent.
 */
function numberEnd(bytes: Uint8Array, start: number): number {
  const from = bytes[start] === MINUS ? start + 1 : start;
  let at = digitsEnd(bytes, from);
  if (at === from) return NO_MATCH; // white space
  if (bytes[at] === POINT) {
    const point = at;
    at = digitsEnd(bytes, at + 1);
    if (bytes[at - 1] === ZERO || (at - point > 7 && bytes[from] === ZERO)) return NO_MATCH;
  } else if (from !== start && bytes[from] === ZERO) {
    return NO_MATCH; // -0
  }
  return at - from > 15 ? NO_MATCH : at;
}

function digitsEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  for (let byte = bytes[at] as number; byte >= ZERO && byte <= NINE; byte = bytes[++at] as number);
  return at;
}
