import { createPublicKey, hash, type KeyObject, sign } from 'node:crypto';
import { isPublicKey, verifyingKey, verifyText } from './signature.ts';

// Signatures of firmware (docs/devices.md): Ed25519 (RFC 8032), made where the private key is, checked by the service when a
// release is released, and by devices before they install it.

/** Domain separation: no other signature of the protocol is over a text that begins with this line. */
const CONTEXT = 'twinkeep-firmware-v1';

/** The facts about a firmware file that a signature covers. */
export interface SignedFirmware {
  deviceType: string;
  /** Semantic version, exactly as in the release. */
  version: string;
  /** SHA-256 of the file, hex. */
  checksum: string;
  /** Bytes of the file. */
  size: number;
}

/**
 * The signed text: five lines, each ended by a line feed. Throws if a member could not be read back unambiguously: a
 * device type or version with a control character, or a malformed checksum or size.
 */
export function firmwareText({ deviceType, version, checksum, size }: SignedFirmware): string {
  if (!/^\P{Cc}+$/u.test(deviceType) || !/^[\x21-\x7e]+$/.test(version)) {
    throw new TypeError('device type and version must be one line each');
  }
  if (!/^[0-9a-f]{64}$/i.test(checksum)) throw new TypeError('the checksum must be a SHA-256 in hex');
  if (!Number.isSafeInteger(size) || size < 1) throw new TypeError('the size must be a number of bytes');
  return `${[CONTEXT, deviceType, version, checksum.toLowerCase(), size].join('\n')}\n`;
}

/** The signature of a private Ed25519 key: 64 bytes, base64url. Throws if the key has another type. */
export function signFirmware(privateKey: KeyObject, firmware: SignedFirmware): string {
  if (privateKey.type !== 'private' || privateKey.asymmetricKeyType !== 'ed25519') {
    throw new TypeError('the key must be a private Ed25519 key');
  }
  return sign(null, Buffer.from(firmwareText(firmware)), privateKey).toString('base64url');
}

/** The first of these public keys (32 raw bytes, base64url) that verifies the signature, or null. A malformed key verifies none. */
export function findFirmwareSigner<Key extends { publicKey: string }>(
  keys: readonly Key[],
  firmware: SignedFirmware,
  signature: string,
): Key | null {
  const text = firmwareText(firmware);
  const verifies = ({ publicKey }: Key) =>
    isPublicKey(publicKey) && verifyText(verifyingKey('ed25519', publicKey), text, signature);
  return keys.find(verifies) ?? null;
}

/** The id of a public key: its JWK thumbprint (RFC 7638, with the members of RFC 8037 appendix A.3). */
export const firmwareKeyId = (publicKey: string): string =>
  hash('sha256', `{"crv":"Ed25519","kty":"OKP","x":"${publicKey}"}`, 'base64url');

/** The raw public key, base64url, of an Ed25519 key, private or public. Throws if the key has another type. */
export function rawPublicKey(key: KeyObject): string {
  const { crv, x } = (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'jwk' });
  if (crv !== 'Ed25519' || typeof x !== 'string') throw new TypeError('the key must be an Ed25519 key');
  return x;
}
