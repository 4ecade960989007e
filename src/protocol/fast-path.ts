// Fast path for compact envelopes from devices (`fast-envelope.ts`): verifies them on their bytes, without creating strings for members
// that are only compared or signed. It never refuses a message: one that does not match goes to the slow path
// (`envelope.ts`), which alone decides whether and why it is refused.

import { hash } from 'node:crypto';
import { parseCanonical } from '../domain/json/strict.ts';
import type { EpochMs, JsonObject } from '../domain/values.ts';
import { MAX_FIELD_LENGTH, type MessageIdentity } from './canonical.ts';
import { MESSAGE_SKEW_MS, PROTOCOL_VERSION } from './constants.ts';
import {
  findMembers,
  KEY_VERSION,
  MESSAGE_ID,
  memberEnds,
  memberStarts,
  NONCE,
  numberOf,
  PAYLOAD,
  PAYLOAD_HASH,
  REQUEST_ID,
  SEQUENCE_NUMBER,
  SIGNATURE,
  type SignedPrefix,
  signedPrefixOf,
  TIMESTAMP,
  writeSignedText,
} from './fast-envelope.ts';
import { type HmacPads, padsOf, verifyBufferHmac } from './hmac.ts';
import { type DevicePayload, type PayloadResult, readDevicePayload } from './payloads.ts';
import type { VerifyingKey } from './signature.ts';
import type { DeviceChannel } from './topics.ts';

/** The parts of a session's messages that are known in advance. */
export interface FastPathSession {
  signedPrefix: SignedPrefix;
  pads: HmacPads;
  keyVersion: number;
}

export interface FastPathMessage {
  fields: MessageIdentity;
  payload: JsonObject;
  canonical: Uint8Array;
  keyVersion: number;
  body: PayloadResult<DevicePayload>;
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

/** The message, if it is a compact envelope and passes every check of `checkMessage`; otherwise null. */
export function readFastPathMessage(
  bytes: Buffer,
  session: FastPathSession,
  channel: DeviceChannel,
  now: EpochMs,
): FastPathMessage | null {
  if (!findMembers(bytes, session.signedPrefix, channel)) return null;
  if (!isWithinLimits() || numberOf(bytes, KEY_VERSION) !== session.keyVersion) return null;
  const timestamp = numberOf(bytes, TIMESTAMP);
  if (Math.abs(now - timestamp) > MESSAGE_SKEW_MS) return null;
  if (!verifyBufferHmac(session.pads, writeSignedText(session.signedPrefix), bytes, memberStarts[SIGNATURE] as number))
    return null;
  const canonical = bytes.subarray(memberStarts[PAYLOAD], memberEnds[PAYLOAD]);
  if (!isHashOf(canonical, bytes, memberStarts[PAYLOAD_HASH] as number)) return null;
  const payload = parseCanonical(canonical);
  if (payload === null) return null;
  const fields = {
    message_id: bytes.toString('latin1', memberStarts[MESSAGE_ID], memberEnds[MESSAGE_ID]),
    sequence_number: numberOf(bytes, SEQUENCE_NUMBER),
    timestamp,
  };
  const body = readDevicePayload(channel, payload);
  return { fields, payload, canonical, keyVersion: session.keyVersion, body };
}

function isWithinLimits(): boolean {
  const id = lengthOf(MESSAGE_ID);
  return (
    id > 0 && id <= MAX_FIELD_LENGTH && lengthOf(REQUEST_ID) <= MAX_FIELD_LENGTH && lengthOf(NONCE) <= MAX_FIELD_LENGTH
  );
}

const lengthOf = (name: number): number => (memberEnds[name] as number) - (memberStarts[name] as number);

/** Whether `bytes` has the SHA-256 of `text` at `start`, in lower-case hex. */
function isHashOf(text: Uint8Array, bytes: Uint8Array, start: number): boolean {
  const digest = hash('sha256', text, 'hex');
  for (let i = 0; i < digest.length; i++) if (digest.charCodeAt(i) !== bytes[start + i]) return false;
  return true;
}
