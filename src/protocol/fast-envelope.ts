// Finds the members of a compact envelope, as the device library writes it: ASCII without escapes or white space, each known member
// once, in any order, and no others. No strings are created: bytes are compared with bytes and copied, four at a time.

import { canonicalEnd, NO_MATCH } from '../domain/json/canonical-scan.ts';
import { MAX_JSON_DEPTH } from '../domain/json/strict.ts';
import { canonicalFieldNames, MAX_FIELD_LENGTH } from './canonical.ts';
import { SIGNING_BUFFER_START, signingBuffer, TAG_LENGTH } from './hmac.ts';
import { type DeviceChannel, deviceChannels } from './topics.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const ZERO = 0x30;
const NINE = 0x39;
const OPEN = 0x7b;
const BAR = 0x7c;
const CLOSE = 0x7d;

// In signing order, which is also the usual order of the members in a message.
const names = [...canonicalFieldNames, 'key_version', 'signature', 'payload'] as const;
const CLIENT_ID = 3;
export const MESSAGE_ID = 4;
export const REQUEST_ID = 5;
export const SEQUENCE_NUMBER = 6;
export const TIMESTAMP = 7;
export const NONCE = 8;
const MESSAGE_TYPE = 9;
export const PAYLOAD_HASH = 10;
export const KEY_VERSION = 11;
export const SIGNATURE = 12;
export const PAYLOAD = 13;

const bit = (name: number): number => 1 << name;
const ALL = bit(names.length) - 1;
const NUMBERS = bit(SEQUENCE_NUMBER) | bit(TIMESTAMP) | bit(KEY_VERSION);
const TEXTS = ALL & ~NUMBERS & ~bit(PAYLOAD);

const HASH_LENGTH = 64; // SHA-256 in hex
/** Decimal digits that a double always represents exactly. */
const MAX_DIGITS = 15;
/** Longer messages take the slow path: there the payload dominates the cost. */
const MAX_MESSAGE_BYTES = 16_384;
/** Bytes that are compared or copied at once. A compared text has at least this length. */
const STEP_BYTES = 4;

// Shared scratch buffers: nothing in this module awaits, so calls never overlap.
const message = new Uint8Array(MAX_MESSAGE_BYTES + MAX_FIELD_LENGTH + STEP_BYTES);
const messageView = new DataView(message.buffer);
const signingView = new DataView(signingBuffer.buffer, signingBuffer.byteOffset, signingBuffer.length);

/** Start and end of each value that `findMembers` found last; texts without their quotes. */
export const memberStarts = new Int32Array(names.length);
export const memberEnds = new Int32Array(names.length);

/** The common prefix of all texts signed in a session: version, device, tenant and client, each followed by `|`. */
export interface SignedPrefix {
  bytes: Uint8Array;
  /** Start of each of the four parts, and the end. */
  offsets: readonly number[];
}

/** The bytes before each value (name, colon, opening quote of a text), concatenated. */
const labelTexts = names.map((name, index) => `"${name}":${(TEXTS & bit(index)) === 0 ? '' : '"'}`);
const labels = viewOf(labelTexts.join(''));
const labelStarts = Int32Array.from(names, (_, index) => labelTexts.slice(0, index).join('').length);
const labelLengths = Int32Array.from(labelTexts, (text) => text.length);
const types = Object.fromEntries(deviceChannels.map((name) => [name, viewOf(name)])) as Record<DeviceChannel, DataView>;

/** 1 for printable ASCII except quote, backslash and `|`. */
const isPlainByte = new Uint8Array(256);
for (let byte = 0x20; byte < 0x7f; byte++) isPlainByte[byte] = /["\\|]/.test(String.fromCharCode(byte)) ? 0 : 1;

/** Null if a part has other than plain bytes, is too long for a field or too short to be compared. */
export function signedPrefixOf(texts: readonly string[]): SignedPrefix | null {
  const parts = [0];
  for (const text of texts) {
    const bytes = Buffer.from(text);
    if (bytes.length < STEP_BYTES || bytes.length > MAX_FIELD_LENGTH || !bytes.every((byte) => isPlainByte[byte] === 1))
      return null;
    parts.push((parts.at(-1) as number) + bytes.length + 1);
  }
  return { bytes: Uint8Array.from(Buffer.from(`${texts.join('|')}|`)), offsets: parts };
}

/**
 * Whether `bytes` are a canonical envelope with this prefix and type. If so, `memberStarts` and `memberEnds` hold the
 * positions of its members. Of `payload_hash` and `signature` only the length is checked, of `payload` only what
 * `canonicalEnd` guarantees.
 */
export function findMembers(bytes: Uint8Array, prefix: SignedPrefix, channel: DeviceChannel): boolean {
  const last = bytes.length - 1;
  // The last byte is a closing brace, which occurs in no name or number, so none of them extends beyond the end.
  if (last >= MAX_MESSAGE_BYTES || bytes[0] !== OPEN || bytes[last] !== CLOSE) return false;
  message.set(bytes);
  signingBuffer.set(prefix.bytes, SIGNING_BUFFER_START);
  let found = 0;
  let at = 0;
  let name = PAYLOAD;
  do {
    name = nameAt(at + 1, (name + 1) % names.length);
    if (name === NO_MATCH || (found & bit(name)) !== 0) return false;
    found |= bit(name);
    const start = at + 1 + (labelLengths[name] as number);
    const end = valueEnd(bytes, name, start, prefix, channel);
    if (end === NO_MATCH) return false;
    memberStarts[name] = start;
    memberEnds[name] = end;
    at = end;
    if ((TEXTS & bit(name)) !== 0 && bytes[at++] !== QUOTE) return false;
  } while (bytes[at] === COMMA);
  return at === last && found === ALL;
}

/** Assembles the signed text in `signingBuffer` and returns its end. */
export function writeSignedText(prefix: SignedPrefix): number {
  let at = SIGNING_BUFFER_START + prefix.bytes.length;
  for (let name = MESSAGE_ID; name <= PAYLOAD_HASH; name++) {
    const start = memberStarts[name] as number;
    const length = (memberEnds[name] as number) - start;
    // The last step may copy beyond the end; the next member overwrites those bytes.
    for (let i = 0; i < length; i += STEP_BYTES) signingView.setInt32(at + i, messageView.getInt32(start + i));
    at += length;
    signingBuffer[at++] = BAR;
  }
  return at - 1;
}

/** The value of the number member `name`. */
export function numberOf(bytes: Uint8Array, name: number): number {
  const end = memberEnds[name] as number;
  let number = 0;
  for (let at = memberStarts[name] as number; at < end; at++) number = number * 10 + (bytes[at] as number) - ZERO;
  return number;
}

/** The member whose label is at `start`; `guess` is tried first. */
function nameAt(start: number, guess: number): number {
  if (isLabel(start, guess)) return guess;
  for (let name = 0; name < names.length; name++) if (isLabel(start, name)) return name;
  return NO_MATCH;
}

function isLabel(start: number, name: number): boolean {
  return isSame(start, labels, labelStarts[name] as number, labelLengths[name] as number);
}

/** The index after the value, excluding its quote. It may be beyond the end, where no further member matches. */
function valueEnd(
  bytes: Uint8Array,
  name: number,
  start: number,
  prefix: SignedPrefix,
  channel: DeviceChannel,
): number {
  if (name <= CLIENT_ID) {
    const from = prefix.offsets[name] as number;
    const length = (prefix.offsets[name + 1] as number) - 1 - from;
    return isSame(start, signingView, SIGNING_BUFFER_START + from, length) ? start + length : NO_MATCH;
  }
  if ((NUMBERS & bit(name)) !== 0) return numberEnd(bytes, start);
  switch (name) {
    case MESSAGE_TYPE: {
      const type = types[channel];
      return isSame(start, type, 0, type.byteLength) ? start + type.byteLength : NO_MATCH;
    }
    case PAYLOAD_HASH:
      return start + HASH_LENGTH;
    case SIGNATURE:
      return start + TAG_LENGTH;
    case PAYLOAD:
      return canonicalEnd(bytes, start, MAX_JSON_DEPTH);
    default:
      return textEnd(bytes, start);
  }
}

/**
 * Whether the message at `start` equals `view` at `from`. The last step of four bytes may overlap the one before. Bytes
 * beyond the end are left over from an earlier message; that is safe, because callers continue in `bytes`, which end
 * there.
 */
function isSame(start: number, view: DataView, from: number, length: number): boolean {
  const lastStep = length - STEP_BYTES;
  for (let i = 0; i < lastStep; i += STEP_BYTES) {
    if (messageView.getInt32(start + i) !== view.getInt32(from + i)) return false;
  }
  return messageView.getInt32(start + lastStep) === view.getInt32(from + lastStep);
}

function textEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  while (at < bytes.length && isPlainByte[bytes[at] as number] === 1) at++;
  return at;
}

/** The index after a whole number in the form that ECMAScript writes. */
function numberEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  for (let byte = bytes[at] as number; byte >= ZERO && byte <= NINE; byte = bytes[++at] as number);
  const digits = at - start;
  return digits === 0 || digits > MAX_DIGITS || (digits > 1 && bytes[start] === ZERO) ? NO_MATCH : at;
}

function viewOf(text: string): DataView {
  return new DataView(Uint8Array.from(Buffer.from(text)).buffer);
}
