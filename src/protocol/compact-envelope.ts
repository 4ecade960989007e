// The compact form of an envelope, as the device library writes it: ASCII without escapes or white space, each known member once, in
// any order, and no others.

import { NO_MATCH } from '../domain/json/canonical-scan.ts';
import { canonicalFieldNames, MAX_FIELD_LENGTH } from './canonical.ts';
import { type DeviceChannel, deviceChannels } from './topics.ts';

const ZERO = 0x30;
const NINE = 0x39;

// In signing order, which is also the usual order of the members in a message.
const names = [...canonicalFieldNames, 'key_version', 'signature', 'payload'] as const;
export const MEMBER_COUNT = names.length;
export const CLIENT_ID = 3;
export const MESSAGE_ID = 4;
export const REQUEST_ID = 5;
export const SEQUENCE_NUMBER = 6;
export const TIMESTAMP = 7;
export const NONCE = 8;
export const MESSAGE_TYPE = 9;
export const PAYLOAD_HASH = 10;
export const KEY_VERSION = 11;
export const SIGNATURE = 12;
export const PAYLOAD = 13;

export const bit = (name: number): number => 1 << name;
export const ALL = bit(MEMBER_COUNT) - 1;
export const NUMBERS = bit(SEQUENCE_NUMBER) | bit(TIMESTAMP) | bit(KEY_VERSION);
export const TEXTS = ALL & ~NUMBERS & ~bit(PAYLOAD);

/** Decimal digits that a double always represents exactly. */
const MAX_DIGITS = 15;
/** Bytes that are compared or copied at once. A compared text has at least this length. */
export const STEP_BYTES = 4;

/** The bytes before each value (name, colon, opening quote of a text), concatenated. */
const labelTexts = names.map((name, index) => `"${name}":${(TEXTS & bit(index)) === 0 ? '' : '"'}`);
const labels = viewOf(labelTexts.join(''));
const labelStarts = Int32Array.from(names, (_, index) => labelTexts.slice(0, index).join('').length);
export const labelLengths = Int32Array.from(labelTexts, (text) => text.length);
export const channelTexts = Object.fromEntries(deviceChannels.map((name) => [name, viewOf(name)])) as Record<
  DeviceChannel,
  DataView
>;

/** 1 for printable ASCII except quote, backslash and `|`. */
const isPlainByte = new Uint8Array(256);
for (let byte = 0x20; byte < 0x7f; byte++) isPlainByte[byte] = /["\\|]/.test(String.fromCharCode(byte)) ? 0 : 1;

/** The common prefix of all texts signed in a session: version, device, tenant and client, each followed by `|`. */
export interface SignedPrefix {
  bytes: Uint8Array;
  /** Start of each of the four parts, and the end. */
  offsets: readonly number[];
}

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

/** The member whose label is at `start` in the message; `guess` is tried first. */
export function nameAt(message: DataView, start: number, guess: number): number {
  if (isLabel(message, start, guess)) return guess;
  for (let name = 0; name < MEMBER_COUNT; name++) if (isLabel(message, start, name)) return name;
  return NO_MATCH;
}

function isLabel(message: DataView, start: number, name: number): boolean {
  return isSame(message, start, labels, labelStarts[name] as number, labelLengths[name] as number);
}

/**
 * Whether the message at `start` equals `text` at `from`. The last step of four bytes may overlap the one before. It may
 * read beyond the message's end, but a caller continues in the message's own bytes, which end there.
 */
export function isSame(message: DataView, start: number, text: DataView, from: number, length: number): boolean {
  const lastStep = length - STEP_BYTES;
  for (let i = 0; i < lastStep; i += STEP_BYTES) {
    if (message.getInt32(start + i) !== text.getInt32(from + i)) return false;
  }
  return message.getInt32(start + lastStep) === text.getInt32(from + lastStep);
}

/** The index after a text of plain bytes. */
export function textEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  while (at < bytes.length && isPlainByte[bytes[at] as number] === 1) at++;
  return at;
}

/** The index after a whole number in the form that ECMAScript writes. */
export function numberEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  for (let byte = bytes[at] as number; byte >= ZERO && byte <= NINE; byte = bytes[++at] as number);
  const digits = at - start;
  return digits === 0 || digits > MAX_DIGITS || (digits > 1 && bytes[start] === ZERO) ? NO_MATCH : at;
}

/** The value of the digits from `start` to `end`. */
export function readNumber(bytes: Uint8Array, start: number, end: number): number {
  let number = 0;
  for (let at = start; at < end; at++) number = number * 10 + (bytes[at] as number) - ZERO;
  return number;
}

function viewOf(text: string): DataView {
  return new DataView(Uint8Array.from(Buffer.from(text)).buffer);
}
