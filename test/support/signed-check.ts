import { createHash, createHmac, type KeyObject, randomBytes, sign } from 'node:crypto';

// A device's own check for firmware. The signed form is built here from docs/devices.md, without the code of the service.

const SIGNED = [
  ...['version', 'device_id', 'tenant_id', 'client_id', 'message_id', 'request_id', 'sequence_number', 'timestamp'],
  ...['nonce', 'message_type', 'payload_hash'],
] as const;

/** An HMAC secret, or an Ed25519 private key. */
export type CheckKey = string | KeyObject;
export type CheckFields = Record<string, unknown>;

const signatureOf = (key: CheckKey, text: string): string =>
  typeof key === 'string'
    ? createHmac('sha256', Buffer.from(key, 'ascii')).update(text).digest('base64url')
    : sign(null, Buffer.from(text), key).toString('base64url');

/** A signed request of a device, by its key of version 1; `more` is set before it is signed. */
export function signedCheck(
  { deviceId, tenantId, now }: { deviceId: string; tenantId: string; now: number },
  key: CheckKey,
  more: CheckFields = {},
  payload: CheckFields = {},
): CheckFields {
  const asked = { current_version: '1.0', device_type: 'smart_light', ...payload };
  const timestamp = (more.timestamp as number | undefined) ?? now;
  const nonce = randomBytes(12).toString('base64url');
  const canonical = JSON.stringify({ current_version: asked.current_version, device_type: asked.device_type });
  const fields: CheckFields = {
    ...{ version: 'PROTO/3.1', device_id: deviceId, tenant_id: tenantId, nonce, timestamp },
    ...{ client_id: `${deviceId}.${timestamp}.${nonce}`, message_id: 'm1', request_id: '', sequence_number: 0 },
    ...{ message_type: 'firmware_check', payload_hash: createHash('sha256').update(canonical).digest('hex') },
    ...more,
  };
  const text = SIGNED.map((name) => fields[name]).join('|');
  return { ...fields, key_version: 1, signature: signatureOf(key, text), payload: asked };
}
