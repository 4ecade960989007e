import { hash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { Json } from '../domain/values.ts';

/** The eleven fields that a signature covers (specification §5.9), by their wire names. */
export interface CanonicalFields {
  version: string;
  device_id: string;
  tenant_id: string;
  client_id: string;
  message_id: string;
  request_id: string;
  sequence_number: number;
  /** Epoch milliseconds. */
  timestamp: number;
  nonce: string;
  message_type: string;
  /** SHA-256 of the payload's canonical form, or of its bytes in a message from a device; lower-case hex. */
  payload_hash: string;
}

/** The fields that identify a message and give its send time. */
export type MessageIdentity = Pick<CanonicalFields, 'message_id' | 'sequence_number' | 'timestamp'>;

/** Maximum length of a text field, in UTF-16 units. */
export const MAX_FIELD_LENGTH = 256;

/** Specification §5.9: exactly eleven fields, in this order. A field that is missing here does not compile. */
const signedFields = {
  version: true,
  device_id: true,
  tenant_id: true,
  client_id: true,
  message_id: true,
  request_id: true,
  sequence_number: true,
  timestamp: true,
  nonce: true,
  message_type: true,
  payload_hash: true,
} satisfies Record<keyof CanonicalFields, true>;
export const canonicalFieldNames = Object.keys(signedFields) as readonly (keyof CanonicalFields)[];

/** The RFC 8785 (JCS) form. The value must have passed `parseJson` or `checkJson`; NaN and lone surrogates throw. */
export function canonicalPayload(value: Json): string {
  // ECMAScript formats numbers and strings as RFC 8785 does, so for sorted keys `JSON.stringify` is already canonical.
  return isInOrder(value) ? JSON.stringify(value) : (canonicalize(value) as string);
}

/** Whether the keys of every object are in UTF-16 order. Also false for values that `canonicalize` rejects. */
function isInOrder(value: Json): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value === 'number') return Number.isFinite(value);
  if (value === null || typeof value !== 'object') return typeof value === 'boolean' || value === null;
  if (Array.isArray(value)) return value.every(isInOrder);
  let last = '';
  for (const key in value) {
    if (key < last || !key.isWellFormed() || !isInOrder(value[key] as Json)) return false;
    last = key;
  }
  return true;
}

/** SHA-256 of the payload's canonical form, lower-case hex. */
export function payloadHash(payload: Json): string {
  return sha256Hex(canonicalPayload(payload));
}

export function sha256Hex(text: string | Uint8Array): string {
  return hash('sha256', text, 'hex');
}

/** The signed text: the eleven fields joined by `|`. The envelope check ensures that no field contains a `|`. */
export function canonicalString(fields: Readonly<Record<keyof CanonicalFields, string | number>>): string {
  return `${fields.version}|${fields.device_id}|${fields.tenant_id}|${fields.client_id}|${fields.message_id}|${fields.request_id}|${fields.sequence_number}|${fields.timestamp}|${fields.nonce}|${fields.message_type}|${fields.payload_hash}`;
}
