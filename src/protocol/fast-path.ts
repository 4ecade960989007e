import { hash } from 'node:crypto';
import { canonicalEnd, NO_MATCH } from '../domain/json/canonical-scan.ts';
import { MAX_JSON_DEPTH, parseCanonical } from '../domain/json/strict.ts';
import type { EpochMs } from '../domain/values.ts';
import { MAX_FIELD_LENGTH, type MessageIdentity } from './canonical.ts';
import {
  ALL,
  bit,
  CLIENT_ID,
  channelTexts,
  isSame,
  KEY_VERSION,
  labelLengths,
  MEMBER_COUNT,
  MESSAGE_ID,
  MESSAGE_TYPE,
  NONCE,
  NUMBERS,
  nameAt,
  numberEnd,
  PAYLOAD,
  PAYLOAD_HASH,
  REQUEST_ID,
  readNumber,
  SEQUENCE_NUMBER,
  SIGNATURE,
  type SignedPrefix,
  STEP_BYTES,
  signedPrefixOf,
  TEXTS,
  TIMESTAMP,
  textEnd,
} from './compact-envelope.ts';
import { MESSAGE_SKEW_MS, PROTOCOL_VERSION } from './constants.ts';
import type { CheckedMessage } from './envelope.ts';
import { HmacBuffer, type HmacPads, padsOf, TAG_LENGTH } from './hmac.ts';
import { type DevicePayload, readDevicePayload } from './payloads.ts';
import type { VerifyingKey } from './signature.ts';
import type { DeviceChannel } from './topics.ts';

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN = 0x7b;
const BAR = 0x7c;
const CLOSE = 0x7d;

const HASH_LENGTH = 64; // SHA-256 in hex
/** Longer messages are left to the strict parser: there the payload dominates the cost. */
const MAX_MESSAGE_BYTES = 16_384;

/** The parts of a session's messages that are known in advance. */
export interface FastPathSession {
  signedPrefix: SignedPrefix;
  pads: HmacPads;
  keyVersion: number;
}

/**
 * Null if the session cannot use the fast path: its key is not an HMAC key, or an id is too short or too long, or has a
 * character that is not printable ASCII, a quotation mark, a backslash or a `|`.
 */
export function fastPathSession(session: {
  deviceId: string;
  tenantId: string;
  clientId: string;
  key: VerifyingKey;
  keyVersion: number;
}): FastPathSession | null {
  const { deviceId, tenantId, clientId, key, keyVersion } = session;
  if (key.alg !== 'hmac-sha256' || keyVersion < 1) return null;
  const signedPrefix = signedPrefixOf([PROTOCOL_VERSION, deviceId, tenantId, clientId]);
  return signedPrefix === null ? null : { signedPrefix, pads: padsOf(key.material), keyVersion };
}

/**
 * Fast path for canonical envelopes; returns null to fall back to the strict parser (`checkMessage`). Never rejects.
 *
 * Verifies a message on its bytes: members that are only compared or signed never become strings. Owns its buffers and
 * serves all sessions: no method awaits, so calls never overlap.
 */
export class FastPathVerifier {
  /** The message, followed by space for comparisons that extend beyond its end. */
  readonly #message = new Uint8Array(MAX_MESSAGE_BYTES + MAX_FIELD_LENGTH + STEP_BYTES);
  readonly #messageView = new DataView(this.#message.buffer);
  readonly #hmac = new HmacBuffer();
  /** The signed text is assembled here. */
  readonly #signedText = this.#hmac.text;
  readonly #signedView = new DataView(this.#signedText.buffer, this.#signedText.byteOffset, this.#signedText.length);
  /** Start and end of each value in the message, by member; texts without their quotes. */
  readonly #starts = new Int32Array(MEMBER_COUNT);
  readonly #ends = new Int32Array(MEMBER_COUNT);

  /** The message, if it is a compact envelope and passes every check of `checkMessage`; otherwise null. */
  verify(
    bytes: Buffer,
    session: FastPathSession,
    channel: DeviceChannel,
    now: EpochMs,
  ): CheckedMessage<DevicePayload, MessageIdentity> | null {
    if (!this.#findMembers(bytes, session.signedPrefix, channel)) return null;
    if (!this.#isWithinLimits() || this.#numberOf(bytes, KEY_VERSION) !== session.keyVersion) return null;
    const timestamp = this.#numberOf(bytes, TIMESTAMP);
    if (Math.abs(now - timestamp) > MESSAGE_SKEW_MS) return null;
    const signed = this.#writeSignedText(session.signedPrefix);
    if (!this.#hmac.verify(session.pads, signed, bytes, this.#starts[SIGNATURE] as number)) return null;
    const canonical = bytes.subarray(this.#starts[PAYLOAD], this.#ends[PAYLOAD]);
    if (!isHashOf(canonical, bytes, this.#starts[PAYLOAD_HASH] as number)) return null;
    const payload = parseCanonical(canonical);
    if (payload === null) return null;
    const fields = {
      message_id: bytes.toString('latin1', this.#starts[MESSAGE_ID], this.#ends[MESSAGE_ID]),
      sequence_number: this.#numberOf(bytes, SEQUENCE_NUMBER),
      timestamp,
    };
    const content = readDevicePayload(channel, payload);
    return { ok: true, fields, payload, canonical, keyVersion: session.keyVersion, content };
  }

  /**
   * Whether `bytes` are a compact envelope with this prefix and type; if so, finds its members. Of `payload_hash` and
   * `signature` only the length is checked, of `payload` only what `canonicalEnd` guarantees.
   */
  #findMembers(bytes: Uint8Array, prefix: SignedPrefix, channel: DeviceChannel): boolean {
    const last = bytes.length - 1;
    // The last byte is a closing brace, which occurs in no name or number, so none of them extends beyond the end.
    if (last >= MAX_MESSAGE_BYTES || bytes[0] !== OPEN || bytes[last] !== CLOSE) return false;
    this.#message.set(bytes);
    this.#signedText.set(prefix.bytes);
    const message = this.#messageView;
    let found = 0;
    let at = 0;
    let name = PAYLOAD;
    do {
      name = nameAt(message, at + 1, (name + 1) % MEMBER_COUNT);
      if (name === NO_MATCH || (found & bit(name)) !== 0) return false;
      found |= bit(name);
      const start = at + 1 + (labelLengths[name] as number);
      const end = this.#valueEnd(bytes, name, start, prefix, channel);
      if (end === NO_MATCH) return false;
      this.#starts[name] = start;
      this.#ends[name] = end;
      at = end;
      if ((TEXTS & bit(name)) !== 0 && bytes[at++] !== QUOTE) return false;
    } while (bytes[at] === COMMA);
    return at === last && found === ALL;
  }

  /** The index after the value, excluding its quote. It may be beyond the end, where no further member matches. */
  #valueEnd(bytes: Uint8Array, name: number, start: number, prefix: SignedPrefix, channel: DeviceChannel): number {
    if (name <= CLIENT_ID) {
      const from = prefix.offsets[name] as number;
      const length = (prefix.offsets[name + 1] as number) - 1 - from;
      return isSame(this.#messageView, start, this.#signedView, from, length) ? start + length : NO_MATCH;
    }
    if ((NUMBERS & bit(name)) !== 0) return numberEnd(bytes, start);
    switch (name) {
      case MESSAGE_TYPE: {
        const type = channelTexts[channel];
        return isSame(this.#messageView, start, type, 0, type.byteLength) ? start + type.byteLength : NO_MATCH;
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

  #isWithinLimits(): boolean {
    const id = this.#lengthOf(MESSAGE_ID);
    if (id === 0 || id > MAX_FIELD_LENGTH) return false;
    return this.#lengthOf(REQUEST_ID) <= MAX_FIELD_LENGTH && this.#lengthOf(NONCE) <= MAX_FIELD_LENGTH;
  }

  #lengthOf(name: number): number {
    return (this.#ends[name] as number) - (this.#starts[name] as number);
  }

  #numberOf(bytes: Uint8Array, name: number): number {
    return readNumber(bytes, this.#starts[name] as number, this.#ends[name] as number);
  }

  /** Assembles the signed text behind its prefix and returns its length. */
  #writeSignedText(prefix: SignedPrefix): number {
    const from = this.#messageView;
    const to = this.#signedView;
    let at = prefix.bytes.length;
    for (let name = MESSAGE_ID; name <= PAYLOAD_HASH; name++) {
      const start = this.#starts[name] as number;
      const length = (this.#ends[name] as number) - start;
      // The last step may copy beyond the end; the next member overwrites those bytes.
      for (let i = 0; i < length; i += STEP_BYTES) to.setInt32(at + i, from.getInt32(start + i));
      at += length;
      this.#signedText[at++] = BAR;
    }
    return at - 1;
  }
}

/** Whether `bytes` has the SHA-256 of `text` at `start`, in lower-case hex. */
function isHashOf(text: Uint8Array, bytes: Uint8Array, start: number): boolean {
  const digest = hash('sha256', text, 'hex');
  for (let i = 0; i < digest.length; i++) if (digest.charCodeAt(i) !== bytes[start + i]) return false;
  return true;
}
