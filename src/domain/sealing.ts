import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

/**
 * Encrypts secrets at rest with AES-256-GCM. `aad` binds a blob to its place, such as a device id and a key version.
 */
export interface Sealer {
  seal(plain: string, aad: string): string;
  /** Throws `SealBroken` if the blob was sealed with an unknown key or for another place, or was modified. */
  open(blob: string, aad: string): string;
}

/** A sealed secret cannot be decrypted: it was sealed with another master key, or its row was modified. */
export class SealBroken extends Error {
  override name = 'SealBroken';
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const FORMAT = 's1';

/** The key's id inside a blob: 8 bytes of a hash that reveals nothing about the key. */
export const keyId = (key: Uint8Array): string =>
  createHash('sha256').update('twinkeep master key id\0').update(key).digest('base64url').slice(0, 11);

/** A sealer that seals with `current` and also opens blobs sealed with `previous`. Both keys are 32 bytes. */
export function makeSealer(current: Uint8Array, previous?: Uint8Array): Sealer {
  const sealingKey = Uint8Array.from(current); // a copy, so that the caller cannot change it
  const sealingId = keyId(sealingKey);
  const keys = new Map([[sealingId, sealingKey]]);
  if (previous !== undefined) keys.set(keyId(previous), Uint8Array.from(previous));
  for (const key of keys.values()) if (key.length !== 32) throw new RangeError('master key must be 32 bytes');

  return {
    seal(plain, aad) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', sealingKey, nonce).setAAD(boundTo(sealingId, aad));
      const body = Buffer.concat([nonce, cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()]);
      return `${FORMAT}.${sealingId}.${body.toString('base64url')}`;
    },
    open(blob, aad) {
      const [format, id = '', text = '', ...rest] = blob.split('.');
      const key = keys.get(id);
      const body = Buffer.from(text, 'base64url');
      if (format !== FORMAT || rest.length > 0 || body.length < NONCE_BYTES + TAG_BYTES) {
        throw new SealBroken('blob is not a sealed secret');
      }
      if (key === undefined) throw new SealBroken(`blob is sealed with the unknown master key ${id}`);
      const decipher = createDecipheriv('aes-256-gcm', key, body.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
        .setAAD(boundTo(id, aad))
        .setAuthTag(body.subarray(-TAG_BYTES));
      try {
        return Buffer.concat([decipher.update(body.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString();
      } catch {
        throw new SealBroken('blob was modified, or sealed for another place');
      }
    },
  };
}

const boundTo = (id: string, aad: string): Buffer => Buffer.from(`${FORMAT}.${id}\0${aad}`);
