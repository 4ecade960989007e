import { CANONICAL_UUID } from '../domain/uuid.ts';
import type { EpochMs } from '../domain/values.ts';
import { canonicalString, payloadHash } from './canonical.ts';
import { PROTOCOL_VERSION, SESSION_SKEW_MS } from './constants.ts';
import { type SigningKey, signText, type VerifyingKey, verifyText } from './signature.ts';

/** Client identifier of a CONNECT, `<device_id>.<unix ms>.<nonce>` (contract §4, layer 1). */
export interface SessionToken {
  /** The full identifier. The caller must remember it: a token opens one session. */
  clientId: string;
  deviceId: string;
  timestamp: EpochMs;
  /** 12 random bytes, base64url. */
  nonce: string;
}

export interface SessionCredentials {
  clientId: string;
  username: string;
  password: string;
}

const TOKEN = new RegExp(`^(${CANONICAL_UUID})\\.([1-9]\\d{0,14})\\.([A-Za-z0-9_-]{16})$`);

const EMPTY_HASH = payloadHash({});

/** Parses a client identifier; null unless it has exactly the form of a token. */
export function parseSessionToken(clientId: string): SessionToken | null {
  const match = TOKEN.exec(clientId);
  if (match === null) return null;
  return { clientId, deviceId: match[1] as string, timestamp: Number(match[2]), nonce: match[3] as string };
}

/**
 * Whether a token may open a session: its timestamp is within 120 s of one of the given times. There are several,
 * because the service's clock and the reference clock differ while a correction is in progress.
 */
export const isFreshSession = (token: SessionToken, times: readonly EpochMs[]): boolean =>
  times.some((now) => Math.abs(now - token.timestamp) <= SESSION_SKEW_MS);

/** The text that the password of a CONNECT signs. */
export function sessionSigningText(token: SessionToken, tenantId: string): string {
  return canonicalString({
    version: PROTOCOL_VERSION,
    device_id: token.deviceId,
    tenant_id: tenantId,
    client_id: token.clientId,
    message_id: '',
    request_id: '',
    sequence_number: 0,
    timestamp: token.timestamp,
    nonce: token.nonce,
    message_type: 'session',
    payload_hash: EMPTY_HASH,
  });
}

/**
 * Verifies that the password is the key's signature for this token and tenant. The caller also checks freshness
 * (`isFreshSession`) and single use. A tenant id with a `|`, which could shift the signed fields, returns false.
 */
export function verifySession(token: SessionToken, tenantId: string, password: string, key: VerifyingKey): boolean {
  return !tenantId.includes('|') && verifyText(key, sessionSigningText(token, tenantId), password);
}

/** The credentials that a device signs in with. `nonce` is 12 fresh random bytes in base64url. */
export function sessionCredentials(
  device: { deviceId: string; tenantId: string; key: SigningKey },
  now: EpochMs,
  nonce: string,
): SessionCredentials {
  const token = parseSessionToken(`${device.deviceId}.${now}.${nonce}`);
  if (token === null) throw new TypeError('session requires a device id, a time in milliseconds and a 12-byte nonce');
  const password = signText(device.key, sessionSigningText(token, device.tenantId));
  return { clientId: token.clientId, username: device.tenantId, password };
}
