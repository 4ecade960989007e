import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto';
import type { SigningAlg } from '../domain/device-key.ts';
import { publicRandom } from '../domain/public-random.ts';
import { computeHmac, verifyHmac } from './hmac.ts';

/**
 * A key with its algorithm, so that a message never selects one (contract §4). The material is a `KeyObject`, which
 * prints no secret. The secret of an HMAC key both signs and verifies.
 */
export interface SigningKey {
  alg: SigningAlg;
  material: KeyObject;
}
export interface VerifyingKey {
  alg: SigningAlg;
  material: KeyObject;
}

/** 32 bytes in base64url without padding: a device secret, an Ed25519 seed or public key. */
const KEY_PATTERN = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/;
const KEY_BYTES = 32;

// An Ed25519 key in DER is a fixed header and the 32 raw bytes (RFC 8410).
const PKCS8_HEADER = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_HEADER = Buffer.from('302a300506032b6570032100', 'hex');

/**
 * 64 bytes in base64url without padding. The last character has unused bits, which must be zero, so that each signature has
 * exactly one text.
 */
export const ED25519_SIGNATURE = /^[A-Za-z0-9_-]{85}[AQgw]$/;

/** A new `device_secret`: 32 random bytes, 43 characters. */
export function newDeviceSecret(): string {
  return randomBytes(KEY_BYTES).toString('base64url');
}

/** 12 random bytes in base64url: the nonce of a session token and of a message. */
export function newNonce(): string {
  return publicRandom(12).toString('base64url');
}

/** A device's signing key, from its `device_secret`. Throws unless the secret is 32 bytes in base64url. */
export function signingKey(alg: SigningAlg, secret: string): SigningKey {
  if (!KEY_PATTERN.test(secret)) throw new TypeError('device secret must be 32 bytes in base64url');
  switch (alg) {
    case 'hmac-sha256':
      return { alg, material: createSecretKey(Buffer.from(secret, 'ascii')) };
    case 'ed25519':
      return { alg, material: privateKeyFromSeed(secret) };
  }
}

/**
 * The key that verifies signatures: for `hmac-sha256` from the device secret (its ASCII bytes, not the decoded ones),
 * for `ed25519` from the raw public key. Throws unless the text is 32 bytes in base64url.
 */
export function verifyingKey(alg: SigningAlg, keyText: string): VerifyingKey {
  switch (alg) {
    case 'hmac-sha256':
      return signingKey(alg, keyText);
    case 'ed25519':
      return { alg, material: publicKeyFromText(keyText) };
  }
}

/** The public key (32 raw bytes, base64url) of the Ed25519 key with this seed. */
export function publicKeyFromSeed(seed: string): string {
  return publicKeyOf(privateKeyFromSeed(seed));
}

/** The raw public key of the service's Ed25519 key, base64url, as announced in `cloud_public_keys`. */
export function cloudPublicKey(key: SigningKey): string {
  return publicKeyOf(key.material);
}

// A public key of small order accepts signatures made without a private key. These are the y coordinates of the eight
// small-order points, little-endian and without the sign bit, including the two non-canonical encodings.
const WEAK_Y = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
]);

/** Whether a text is a usable Ed25519 public key: 32 raw bytes in base64url, and not a point of small order. */
export function isPublicKey(text: string): boolean {
  if (!KEY_PATTERN.test(text)) return false;
  const y = Buffer.from(text, 'base64url');
  y[KEY_BYTES - 1] = (y[KEY_BYTES - 1] as number) & 0x7f;
  return !WEAK_Y.has(y.toString('hex'));
}

/** The signature over the UTF-8 bytes of `text`, base64url without padding. */
export function signText(key: SigningKey, text: string): string {
  switch (key.alg) {
    case 'hmac-sha256':
      return computeHmac(key.material, text);
    case 'ed25519':
      return sign(null, Buffer.from(text), key.material).toString('base64url');
  }
}

/** Verifies `signature` over `text`, in constant time for HMAC. A malformed signature returns false. */
export function verifyText(key: VerifyingKey, text: string, signature: string): boolean {
  switch (key.alg) {
    case 'hmac-sha256':
      return verifyHmac(key.material, text, signature);
    case 'ed25519':
      if (!ED25519_SIGNATURE.test(signature)) return false;
      return verify(null, Buffer.from(text), key.material, Buffer.from(signature, 'base64url'));
  }
}

function publicKeyOf(privateKey: KeyObject): string {
  const der = createPublicKey(privateKey).export({ format: 'der', type: 'spki' });
  return der.subarray(SPKI_HEADER.length).toString('base64url');
}

function publicKeyFromText(text: string): KeyObject {
  if (!KEY_PATTERN.test(text)) throw new TypeError('public key must be 32 bytes in base64url');
  const der = Buffer.concat([SPKI_HEADER, Buffer.from(text, 'base64url')]);
  return createPublicKey({ key: der, format: 'der', type: 'spki' });
}

function privateKeyFromSeed(seed: string): KeyObject {
  if (!KEY_PATTERN.test(seed)) throw new TypeError('Ed25519 seed must be 32 bytes in base64url');
  const der = Buffer.concat([PKCS8_HEADER, Buffer.from(seed, 'base64url')]);
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
}
