// Takes a device's message in its plain form, and makes no texts of what is only compared or signed. It refuses nothing: what
// it does not take goes the long way (`envelope.ts`), which finds out what is wrong with it, if anything is.

import { hash } from 'node:crypto';
import { MAX_FIELD_LENGTH, type SentMark } from './canonical.ts';
import { type HmacPads, isHmacOfWritten, padsOf } from './hmac.ts';
import { parseCanonical } from './json.ts';
import { type DevicePayload, type PayloadReading, readDevicePayload } from './payloads.ts';
import {
  ends,
  findMembers,
  KEY_VERSION,
  MESSAGE_ID,
  NONCE,
  numberIn,
  type Opening,
  openingOf,
  PAYLOAD,
  PAYLOAD_HASH,
  REQUEST_ID,
  SEQUENCE_NUMBER,
  SIGNATURE,
  starts,
  TIMESTAMP,
  writeSigned,
} from './plain-envelope.ts';
import { MESSAGE_SKEW_MS, PROTOCOL_VERSION } from './protocol.ts';
import type { VerifyingKey } from './signature.ts';
import type { DeviceChannel } from './topics.ts';
import type { EpochMs, JsonObject } from './values.ts';

/** What a session knows of its messages before they come. */
export interface PlainSession {
  opening: Opening;
  pads: HmacPads;
  keyVersion: number;
}

export interface PlainMessage {
  fields: SentMark;
  payload: JsonObject;
  canonical: Uint8Array;
  keyVersion: number;
  body: PayloadReading<DevicePayload>;
}

/** Null where every message of the session goes the long way: its key is no HMAC key, or its ids are not plain. */
export function plainSession(session: {
  deviceId: string;
  tenantId: string;
  clientId: string;
  key: VerifyingKey;
  keyVersion: number;
}): PlainSession | null {
  const { deviceId, tenantId, clientId, key, keyVersion } = session;
  if (key.alg !== 'hmac-sha256' || keyVersion < 1) return null;
  const opening = openingOf([PROTOCOL_VERSION, deviceId, tenantId, clientId]);
  return opening === null ? null : { opening, pads: padsOf(key.material), keyVersion };
}

/** The message, if it is in its plain form and passes every check that `checkMessage` makes; else null. */
export function readPlainMessage(
  bytes: Buffer,
  session: PlainSession,
  channel: DeviceChannel,
  now: EpochMs,
): PlainMessage | null {
  if (!findMembers(bytes, session.opening, channel)) return null;
  if (!isWithinLimits() || numberIn(bytes, KEY_VERSION) !== session.keyVersion) return null;
  const timestamp = numberIn(bytes, TIMESTAMP);
  if (Math.abs(now - timestamp) > MESSAGE_SKEW_MS) return null;
  if (!isHmacOfWritten(session.pads, writeSigned(session.opening), bytes, starts[SIGNATURE] as number)) return null;
  const canonical = bytes.subarray(starts[PAYLOAD], ends[PAYLOAD]);
  if (!isHashOf(canonical, bytes, starts[PAYLOAD_HASH] as number)) return null;
  const payload = parseCanonical(canonical);
  if (payload === null) return null;
  const fields = {
    message_id: bytes.toString('latin1', starts[MESSAGE_ID], ends[MESSAGE_ID]),
    sequence_number: numberIn(bytes, SEQUENCE_NUMBER),
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

const lengthOf = (name: number): number => (ends[name] as number) - (starts[name] as number);

/** Whether the SHA-256 of `text` stands in `bytes` at `start`, in lower-case hex. */
function isHashOf(text: Uint8Array, bytes: Uint8Array, start: number): boolean {
  const digest = hash('sha256', text, 'hex');
  for (let i = 0; i < digest.length; i++) if (digest.charCodeAt(i) !== bytes[start + i]) return false;
  return true;
}
