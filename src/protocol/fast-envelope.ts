// Finds the members of a device's envelope in its plain form: ASCII without escapes and white space, each member once, in any
// order, and no others. No text is made of any: bytes are compared with bytes, and copied, four at a time.

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

// In the order in which they are signed, and mostly sent.
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
/** Of a number: as many as a double always holds. */
const MAX_DIGITS = 15;
/** In bytes. What a longer message costs, its payload costs. */
const LONGEST = 16_384;
/** Bytes that are compared or copied at once; a text to compare has at least as many. */
const STEP = 4;

// Nothing here is awaited, so one of each is enough.
const message = new Uint8Array(LONGEST + MAX_FIELD_LENGTH + STEP);
const messageView = new DataView(message.buffer);
const writtenView = new DataView(signingBuffer.buffer, signingBuffer.byteOffset, signingBuffer.length);

/** Where each value stands, found last; texts without their quotes. */
export const memberStarts = new Int32Array(names.length);
export const memberEnds = new Int32Array(names.length);

/** What every text signed in a session begins with: version, device, tenant and client, a `|` after each. */
export interface SignedPrefix {
  bytes: Uint8Array;
  /** Where each of the four begins, and the end. */
  offsets: readonly number[];
}

/** What stands before each value, of a text its first quote as well: one after another, and where each begins. */
const labelTexts = names.map((name, index) => `"${name}":${(TEXTS & bit(index)) === 0 ? '' : '"'}`);
const labels = viewOf(labelTexts.join(''));
const labelStarts = Int32Array.from(names, (_, index) => labelTexts.slice(0, index).join('').length);
const labelLengths = Int32Array.from(labelTexts, (text) => text.length);
const types = Object.fromEntries(deviceChannels.map((name) => [name, viewOf(name)])) as Record<DeviceChannel, DataView>;

/** No quote, backslash or `|`, and nothing that is no printable ASCII. */
const isPlainByte = new Uint8Array(256);
for (let byte = 0x20; byte < 0x7f; byte++) isPlainByte[byte] = /["\\|]/.test(String.fromCharCode(byte)) ? 0 : 1;

/** Null where one of the four is not plain, too long for a field or too short to be compared. */
export function signedPrefixOf(texts: readonly string[]): SignedPrefix | null {
  const parts = [0];
  for (const text of texts) {
    const bytes = Buffer.from(text);
    if (bytes.length < STEP || bytes.length > MAX_FIELD_LENGTH || !bytes.every((byte) => isPlainByte[byte] === 1))
      return null;
    parts.push((parts.at(-1) as number) + bytes.length + 1);
  }
  return { bytes: Uint8Array.from(Buffer.from(`${texts.join('|')}|`)), offsets: parts };
}

/**
 * Whether `bytes` are an envelope in its plain form, of this opening and type: then `starts` and `ends` hold where its
 * members are. Of `payload_hash` and `signature` the length alone is known, and of `payload` what `canonicalEnd` says.
 */
export function findMembers(bytes: Uint8Array, opening: SignedPrefix, channel: DeviceChannel): boolean {
  const last = bytes.length - 1;
  // Neither a name nor a number has a closing brace in it, so none goes on beyond the end.
  if (last >= LONGEST || bytes[0] !== OPEN || bytes[last] !== CLOSE) return false;
  message.set(bytes);
  signingBuffer.set(opening.bytes, SIGNING_BUFFER_START);
  let found = 0;
  let at = 0;
  let name = PAYLOAD;
  do {
    name = nameAt(at + 1, (name + 1) % names.length);
    if (name === NO_MATCH || (found & bit(name)) !== 0) return false;
    found |= bit(name);
    const start = at + 1 + (labelLengths[name] as number);
    const end = valueEnd(bytes, name, start, opening, channel);
    if (end === NO_MATCH) return false;
    memberStarts[name] = start;
    memberEnds[name] = end;
    at = end;
    if ((TEXTS & bit(name)) !== 0 && bytes[at++] !== QUOTE) return false;
  } while (bytes[at] === COMMA);
  return at === last && found === ALL;
}

/** Puts together in `written` what was signed, and answers where it ends. */
export function writeSignedText(opening: SignedPrefix): number {
  let at = SIGNING_BUFFER_START + opening.bytes.length;
  for (let name = MESSAGE_ID; name <= PAYLOAD_HASH; name++) {
    const start = memberStarts[name] as number;
    const length = (memberEnds[name] as number) - start;
    // What is copied beyond the end is written over.
    for (let i = 0; i < length; i += STEP) writtenView.setInt32(at + i, messageView.getInt32(start + i));
    at += length;
    signingBuffer[at++] = BAR;
  }
  return at - 1;
}

/** The number that was found under `name`. */
export function numberOf(bytes: Uint8Array, name: number): number {
  const end = memberEnds[name] as number;
  let number = 0;
  for (let at = memberStarts[name] as number; at < end; at++) number = number * 10 + (bytes[at] as number) - ZERO;
  return number;
}

/** Which name stands at `start`, with its colon; `guess` is tried first. */
function nameAt(start: number, guess: number): number {
  if (isLabel(start, guess)) return guess;
  for (let name = 0; name < names.length; name++) if (isLabel(start, name)) return name;
  return NO_MATCH;
}

function isLabel(start: number, name: number): boolean {
  return isSame(start, labels, labelStarts[name] as number, labelLengths[name] as number);
}

/** The index after the value, without its quote. It may be beyond the end, where nothing goes on. */
function valueEnd(
  bytes: Uint8Array,
  name: number,
  start: number,
  opening: SignedPrefix,
  channel: DeviceChannel,
): number {
  if (name <= CLIENT_ID) {
    const from = opening.offsets[name] as number;
    const length = (opening.offsets[name + 1] as number) - 1 - from;
    return isSame(start, writtenView, SIGNING_BUFFER_START + from, length) ? start + length : NO_MATCH;
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
 * Whether the message has at `start` what `view` has at `from`. The last four bytes may be some of those before. Beyond
 * the end there is something of a message before: whoever asks goes on in the bytes themselves, which end there.
 */
function isSame(start: number, view: DataView, from: number, length: number): boolean {
  const lastStep = length - STEP;
  for (let i = 0; i < lastStep; i += STEP) {
    if (messageView.getInt32(start + i) !== view.getInt32(from + i)) return false;
  }
  return messageView.getInt32(start + lastStep) === view.getInt32(from + lastStep);
}

function textEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  while (at < bytes.length && isPlainByte[bytes[at] as number] === 1) at++;
  return at;
}

/** Of a whole number as ECMAScript writes it. */
function numberEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  for (let byte = bytes[at] as number; byte >= ZERO && byte <= NINE; byte = bytes[++at] as number);
  const digits = at - start;
  return digits === 0 || digits > MAX_DIGITS || (digits > 1 && bytes[start] === ZERO) ? NO_MATCH : at;
}

function viewOf(text: string): DataView {
  return new DataView(Uint8Array.from(Buffer.from(text)).buffer);
}
