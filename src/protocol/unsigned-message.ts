import { parseJson } from '../domain/json/strict.ts';
import { isObject } from '../domain/json/value.ts';
import type { MessageRefusalCode } from '../domain/refusals.ts';
import type { EpochMs, Json, JsonObject } from '../domain/values.ts';
import { MAX_FIELD_LENGTH } from './canonical.ts';
import { MESSAGE_SKEW_MS } from './constants.ts';
import { type DevicePayload, type PayloadResult, readDevicePayload } from './payloads.ts';
import type { DeviceChannel } from './topics.ts';

/*
 * Messages of devices that sign in with a certificate: the channel authenticates them, so they have no signature. A message
 * is the payload of its channel alone, or an object with it as `payload` and the members that recognise a repetition.
 */

/** A message whose form is valid. */
export interface ChannelMessage {
  ok: true;
  /** Null for a payload alone: the message is then numbered when it is processed, and never recognised as repeated. */
  numbered: { messageId: string; sequenceNumber: number } | null;
  /** `PAYLOAD_INVALID` applies after the sequence number was accepted. */
  content: PayloadResult<DevicePayload>;
}

export interface ChannelMessageRefusal {
  ok: false;
  code: Extract<MessageRefusalCode, 'MALFORMED' | 'TIMESTAMP_SKEWED'>;
  /** Null if it has none that can be echoed. */
  messageId: string | null;
}

/** A message without a number gets the one after the last, so numbers beyond it must remain. */
const MAX_SEQUENCE = 2 ** 52;
const MEMBERS: ReadonlySet<string> = new Set(['message_id', 'sequence_number', 'timestamp', 'payload']);

/** Reads a message that was published on `channel`. `times`: the clocks by one of which `timestamp` must be valid. */
export function readUnsignedMessage(
  bytes: Uint8Array,
  channel: DeviceChannel,
  times: readonly EpochMs[],
): ChannelMessage | ChannelMessageRefusal {
  const json = parseJson(bytes);
  if (!json.ok || !isObject(json.value)) return { ok: false, code: 'MALFORMED', messageId: null };
  const message = json.value as JsonObject;
  if (!Object.hasOwn(message, 'payload')) {
    return { ok: true, numbered: null, content: readDevicePayload(channel, message) };
  }
  const { message_id: id, sequence_number: sequence, timestamp, payload } = message;
  const messageId = isMessageId(id) ? id : null;
  const isValid =
    messageId !== null &&
    Number.isSafeInteger(sequence) &&
    (sequence as number) <= MAX_SEQUENCE &&
    (timestamp === undefined || typeof timestamp === 'number') &&
    isObject(payload) &&
    Object.keys(message).every((name) => MEMBERS.has(name));
  if (!isValid) return { ok: false, code: 'MALFORMED', messageId };
  if (timestamp !== undefined && times.every((now) => Math.abs(now - (timestamp as number)) > MESSAGE_SKEW_MS)) {
    return { ok: false, code: 'TIMESTAMP_SKEWED', messageId };
  }
  const numbered = { messageId, sequenceNumber: sequence as number };
  return { ok: true, numbered, content: readDevicePayload(channel, payload as JsonObject) };
}

/** As in a signed envelope, where `|` separates the signed fields. */
const isMessageId = (id: Json | undefined): id is string =>
  typeof id === 'string' && id !== '' && id.length <= MAX_FIELD_LENGTH && !id.includes('|');
