import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  type KeyObject,
  randomBytes,
  sign,
  verify,
} from 'node:crypto';
import { publicRandom } from '../domain/public-random.ts';
import { computeHmac, verifyHmac } from './hmac.ts';

export const signingAlgs = ['hmac-sha256', 'ed25519'] as const;
export type SigningAlg = (typeof signingAlgs)[number];

/**
 * A key carries its algorithm: a message never chooses one (contract §4). The material is a `KeyObject`, which shows
 * nothing when it is printed. The secret of an HMAC key both signs and verifies.
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

// An Ed25519 key in DER is a fixed head and the 32 raw bytes (RFC 8410).
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_HEAD = Buffer.from('302a300506032b6570032100', 'hex');

// The last character of a base64url text has unused bits; only zeros there are taken, so that a signature has one text.
const ED25519_TEXT = /^[A-Za-z0-9_-]{85}[AQgw]$/;

/** A new `device_secret`: 32 random bytes, 43 characters. */
export function newDeviceSecret(): string {
  return randomBytes(KEY_BYTES).toString('base64url');
}

/** 12 random bytes in base64url: the nonce of a session token and of a message. */
export function newNonce(): string {
  return publicRandom(12).toString('base64url');
}

/** The key a device signs with, from its `device_secret`. Throws when that is no 32 bytes in base64url. */
export function signingKey(alg: SigningAlg, secret: string): SigningKey {
  if (!KEY_PATTERN.test(secret)) throw new TypeError('a device secret is 32 bytes in base64url');
  return {
    alg,
    material: alg === 'hmac-sha256' ? createSecretKey(Buffer.from(secret, 'ascii')) : privateKeyFromSeed(secret),
  };
}

/**
 * The key that signatures are checked with: for `hmac-sha256` from the device secret (keyed with its ASCII bytes, not
 * with what they decode to), for `ed25519` from the raw public key. Throws when that is no 32 bytes in base64url.
 */
export function verifyingKey(alg: SigningAlg, keyText: string): VerifyingKey {
  if (alg === 'hmac-sha256') return signingKey(alg, keyText);
  if (!KEY_PATTERN.test(keyText)) throw new TypeError('a public key is 32 bytes in base64url');
  const der = Buffer.concat([SPKI_HEAD, Buffer.from(keyText, 'base64url')]);
  return { alg, material: createPublicKey({ key: der, format: 'der', type: 'spki' }) };
}

/** The public key (32 raw bytes, base64url) of the Ed25519 key whose seed is `seed`. */
export function publicKeyFromSeed(seed: string): string {
  return publicKeyOf(privateKeyFromSeed(seed));
}

/** The raw public key of an Ed25519 key, base64url: what `cloud_public_keys` announces of the service's own. */
export function cloudPublicKey(key: SigningKey): string {
  return publicKeyOf(key.material);
}

// A public key of small order verifies signatures that nobody had to make. These are the y coordinates of the eight such
// points, little-endian, and the two that can be written in a second, non-canonical way; the sign bit is left out.
const WEAK_Y = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
]);

/** Whether a text is a usable Ed25519 public key: 32 raw bytes in base64url, and no point of small order. */
export function isPublicKey(text: string): boolean {
  if (!KEY_PATTERN.test(text)) return false;
  const y = Buffer.from(text, 'base64url');
  y[KEY_BYTES - 1] = (y[KEY_BYTES - 1] as number) & 0x7f;
  return !WEAK_Y.has(y.toString('hex'));
}

/** The signature over the UTF-8 bytes of `text`, base64url without padding. */
export function signText(key: SigningKey, text: string): string {
  if (key.alg === 'hmac-sha256') return computeHmac(key.material, text);
  return sign(null, Buffer.from(text), key.material).toString('base64url');
}

/** Whether `signature` is the key's over `text`; constant time for HMAC. Whatever is no signature at all is false. */
export function verifyText(key: VerifyingKey, text: string, signature: string): boolean {
  if (key.alg === 'hmac-sha256') return verifyHmac(key.material, text, signature);
  if (!ED25519_TEXT.test(signature)) return false;
  return verify(null, Buffer.from(text), key.material, Buffer.from(signature, 'base64url'));
}

function publicKeyOf(privateKey: KeyObject): string {
  const der = createPublicKey(privateKey).export({ format: 'der', type: 'spki' });
  return der.subarray(SPKI_HEAD.length).toString('base64url');
}

function privateKeyFromSeed(seed: string): KeyObject {
  if (!KEY_PATTERN.test(seed)) throw new TypeError('an Ed25519 seed is 32 bytes in base64url');
  const der = Buffer.concat([PKCS8_HEAD, Buffer.from(seed, 'base64url')]);
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
}
