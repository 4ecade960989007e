import { rawMember } from '../domain/json/raw-member.ts';
import { parseJson } from '../domain/json/strict.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Json, JsonObject } from '../domain/values.ts';
import {
  type CanonicalFields,
  canonicalFieldNames,
  canonicalPayload,
  canonicalString,
  MAX_FIELD_LENGTH,
  type MessageIdentity,
  payloadHash,
  sha256Hex,
} from './canonical.ts';
import { MESSAGE_SKEW_MS, PROTOCOL_VERSION } from './constants.ts';
import {
  type CloudPayload,
  type DevicePayload,
  type PayloadResult,
  readCloudPayload,
  readDevicePayload,
} from './payloads.ts';
import { type SigningKey, signText, type VerifyingKey, verifyText } from './signature.ts';
import { type CloudMessageType, cloudMessageTypes, type DeviceChannel } from './topics.ts';

/** The session in which a message arrives, as established by its CONNECT. */
export interface MessageSession {
  deviceId: string;
  tenantId: string;
  /** The CONNECT's client identifier. */
  clientId: string;
  /** The key that opened the session; signatures by other keys are refused. */
  key: VerifyingKey;
  keyVersion: number;
}

/** A message with a valid envelope. The caller checks its sequence number next, then its `content`. */
export interface CheckedMessage<Content, Fields = CanonicalFields> {
  ok: true;
  fields: Fields;
  payload: JsonObject;
  /** A view of the payload in the message's bytes, if they are known to be its RFC 8785 form. */
  canonical?: Uint8Array;
  keyVersion: number;
  /** The result of the payload check. `PAYLOAD_INVALID` applies only after the sequence number was accepted. */
  content: PayloadResult<Content>;
}

export interface MessageRefusal {
  ok: false;
  code: MessageRefusalCode;
  /** For the log and the device's record; never sent to the device. */
  reason: string;
  /** Absent if the message has no id that an envelope could carry. */
  messageId?: string;
  /** Whether the session's key signed the message. Only then is the refusal sent on `cmd`. */
  signatureValid: boolean;
}

/** Checks a message that a device published on `channel`, in the contract's order up to the payload's hash. */
export function checkMessage(
  bytes: Uint8Array | string,
  session: MessageSession,
  channel: DeviceChannel,
  now: EpochMs,
): CheckedMessage<DevicePayload, MessageIdentity> | MessageRefusal {
  const rules: Rules = {
    ...{ session, keys: [session.key], keyVersion: session.keyVersion, types: [channel], now },
    acceptsBytesAsSent: true,
  };
  const checked = check(bytes, rules, (payload) => readDevicePayload(channel, payload));
  if (!checked.ok) return checked;
  const { message_id, sequence_number, timestamp } = checked.fields;
  return { ...checked, fields: { message_id, sequence_number, timestamp } };
}

/** Checks a message on `cmd`, on the device's side. `keys` are the device's secret, or the cloud's public keys. */
export function checkCloudMessage(
  bytes: Uint8Array | string,
  session: Pick<MessageSession, 'deviceId' | 'tenantId' | 'clientId'> & { keys: readonly VerifyingKey[] },
  now: EpochMs,
): CheckedMessage<CloudPayload> | MessageRefusal {
  const rules: Rules = {
    ...{ session, keys: session.keys, keyVersion: null, types: cloudMessageTypes, now },
    acceptsBytesAsSent: false,
  };
  return check(bytes, rules, (payload, type) => readCloudPayload(type as CloudMessageType, payload));
}

export interface OutgoingMessage {
  deviceId: string;
  tenantId: string;
  clientId: string;
  messageId: string;
  /** Empty if the message belongs to no request. */
  requestId: string;
  sequence: number;
  timestamp: EpochMs;
  nonce: string;
  type: DeviceChannel | CloudMessageType;
  payload: Json & object;
  keyVersion: number;
  key: SigningKey;
}

/** Composes and signs an envelope. Throws if a field contains a `|`, which every receiver refuses. */
export function composeMessage(message: OutgoingMessage): string {
  const payload = canonicalPayload(message.payload);
  const fields: CanonicalFields = {
    version: PROTOCOL_VERSION,
    device_id: message.deviceId,
    tenant_id: message.tenantId,
    client_id: message.clientId,
    message_id: message.messageId,
    request_id: message.requestId,
    sequence_number: message.sequence,
    timestamp: message.timestamp,
    nonce: message.nonce,
    message_type: message.type,
    payload_hash: sha256Hex(payload),
  };
  for (const name of canonicalFieldNames) {
    const value = fields[name];
    if (typeof value === 'string' && value.includes('|')) throw new TypeError(`${name} must not contain |`);
  }
  const signature = signText(message.key, canonicalString(fields));
  const head = JSON.stringify({ ...fields, key_version: message.keyVersion, signature });
  return `${head.slice(0, -1)},"payload":${payload}}`;
}

interface Rules {
  session: Pick<MessageSession, 'deviceId' | 'tenantId' | 'clientId'>;
  keys: readonly VerifyingKey[];
  /** Null if the key's version is not checked: a device identifies its keys by trying them. */
  keyVersion: number | null;
  types: readonly string[];
  now: EpochMs;
  /** Whether `payload_hash` may be that of the payload's bytes as well. The service itself sends the canonical form. */
  acceptsBytesAsSent: boolean;
}

interface Envelope {
  fields: CanonicalFields;
  payload: JsonObject;
  keyVersion: number;
  signature: string;
}

function check<Content>(
  bytes: Uint8Array | string,
  rules: Rules,
  read: (payload: JsonObject, type: string) => PayloadResult<Content>,
): CheckedMessage<Content> | MessageRefusal {
  const json = parseJson(bytes, { canonical: 'payload' });
  if (!json.ok) return refusal('MALFORMED', json.reason, json.lenient, rules.keys);
  const envelope = readEnvelope(json.value);
  if (typeof envelope === 'string') return refusal('MALFORMED', envelope, json.value, rules.keys);
  const { fields, payload, keyVersion, signature } = envelope;
  const refuse = (code: MessageRefusalCode, reason: string) => refusal(code, reason, json.value, rules.keys);

  if (fields.version !== PROTOCOL_VERSION) return refuse('VERSION_UNSUPPORTED', `version is not ${PROTOCOL_VERSION}`);
  if (!rules.types.includes(fields.message_type))
    return refuse('TYPE_MISMATCH', 'message_type does not match the channel');
  const { session } = rules;
  if (fields.tenant_id !== session.tenantId || fields.device_id !== session.deviceId) {
    return refuse('IDENTITY_MISMATCH', 'tenant_id or device_id does not match the session');
  }
  if (fields.client_id !== session.clientId) return refuse('SESSION_MISMATCH', 'client_id does not match the session');
  if (Math.abs(rules.now - fields.timestamp) > MESSAGE_SKEW_MS) {
    return refuse('TIMESTAMP_SKEWED', 'timestamp is more than five minutes off');
  }
  if (rules.keyVersion !== null && keyVersion !== rules.keyVersion) {
    return refuse('SIGNATURE_INVALID', 'key_version does not match the session');
  }
  const signed = canonicalString(fields);
  if (!rules.keys.some((key) => verifyText(key, signed, signature))) {
    const { message_id: messageId } = fields;
    return { ok: false, code: 'SIGNATURE_INVALID', reason: 'wrong signature', messageId, signatureValid: false };
  }
  const { canonical } = json;
  const payloadDigest = canonical === undefined ? payloadHash(payload) : sha256Hex(canonical);
  if (fields.payload_hash === payloadDigest) {
    const content = read(payload, fields.message_type);
    return { ok: true, fields, payload, keyVersion, content, ...(canonical === undefined ? {} : { canonical }) };
  }
  if (!rules.acceptsBytesAsSent) return refuse('PAYLOAD_HASH_MISMATCH', 'payload_hash does not match payload');
  // The bytes of a canonical payload have the hash that was just compared.
  const asSent = canonical === undefined ? payloadAsSent(bytes, fields.payload_hash) : null;
  if (asSent === null) {
    const reason = "payload_hash is neither that of the payload's bytes nor that of its canonical form";
    return refuse('PAYLOAD_HASH_MISMATCH', reason);
  }
  return { ok: true, fields, payload: asSent, keyVersion, content: read(asSent, fields.message_type) };
}

/**
 * The payload if its bytes in the message have this hash, otherwise null. It is parsed from the hashed bytes, so that
 * the value that takes effect is the one that was signed, whatever the search for the bytes returns.
 */
function payloadAsSent(message: Uint8Array | string, expectedHash: string): JsonObject | null {
  const raw = rawMember(typeof message === 'string' ? Buffer.from(message) : message, 'payload');
  if (raw === null || sha256Hex(raw) !== expectedHash) return null;
  const json = parseJson(raw);
  if (!json.ok || typeof json.value !== 'object' || json.value === null || Array.isArray(json.value)) return null;
  return json.value;
}

/** The envelope, or the reason why it is malformed. Unknown fields are not signed and are ignored. */
function readEnvelope(value: Json): Envelope | string {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'not an object';
  for (const name of canonicalFieldNames) {
    const field = value[name];
    if (name === 'sequence_number' || name === 'timestamp') {
      if (!isCount(field)) return `${name} is not a whole number`;
    } else if (typeof field !== 'string' || field.length > MAX_FIELD_LENGTH) {
      return `${name} is not a string`;
    } else if (field.includes('|')) {
      return `${name} contains a |`;
    }
  }
  if (value.message_id === '') return 'message_id is empty';
  const { payload, key_version: keyVersion, signature } = value;
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) return 'payload is not an object';
  if (!isCount(keyVersion) || keyVersion === 0) return 'key_version is not a positive whole number';
  if (typeof signature !== 'string') return 'signature is not a string';
  return { fields: fieldsOf(value as unknown as CanonicalFields), payload, keyVersion, signature };
}

/** The eleven signed fields. Written out, not looped, because it runs for every message. */
function fieldsOf(sent: CanonicalFields): CanonicalFields {
  return {
    version: sent.version,
    device_id: sent.device_id,
    tenant_id: sent.tenant_id,
    client_id: sent.client_id,
    message_id: sent.message_id,
    request_id: sent.request_id,
    sequence_number: sent.sequence_number,
    timestamp: sent.timestamp,
    nonce: sent.nonce,
    message_type: sent.message_type,
    payload_hash: sent.payload_hash,
  };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function refusal(
  code: MessageRefusalCode,
  reason: string,
  parsed: unknown,
  keys: readonly VerifyingKey[],
): MessageRefusal {
  const messageId = echoableId(parsed);
  const signatureValid = isSignedBy(keys, parsed);
  return { ok: false, code, reason, signatureValid, ...(messageId === null ? {} : { messageId }) };
}

/** Whether one of the keys signed the fields as sent, regardless of other faults in the message. */
function isSignedBy(keys: readonly VerifyingKey[], parsed: unknown): boolean {
  if (typeof parsed !== 'object' || parsed === null) return false;
  const sent = parsed as Record<string, unknown>;
  const { signature } = sent;
  if (typeof signature !== 'string') return false;
  for (const name of canonicalFieldNames) {
    if (typeof sent[name] !== 'string' && typeof sent[name] !== 'number') return false;
  }
  const text = canonicalString(sent as Record<keyof CanonicalFields, string | number>);
  return keys.some((key) => verifyText(key, text, signature));
}

/** The message's id, if the refusal can carry it as `request_id` and in its payload. */
function echoableId(parsed: unknown): string | null {
  if (typeof parsed !== 'object' || parsed === null) return null;
  const { message_id: id } = parsed as Record<string, unknown>;
  if (typeof id !== 'string' || id === '' || id.length > MAX_FIELD_LENGTH) return null;
  return id.includes('|') || id.includes('\0') || !id.isWellFormed() ? null : id;
}
