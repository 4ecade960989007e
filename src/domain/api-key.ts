import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';

/*
 * API keys: `twk_<prefix>_<secret><checksum>`. The prefix (8 characters) identifies the key; the secret (32 random bytes
 * as 43 digits in base 62) is never stored; the checksum (6 digits) is the CRC-32 of all that precedes it. The form
 * follows GitHub's tokens (https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/): secret
 * scanners find it by its beginning and verify it offline. Keys of the form `tk_<prefix>_<secret>` (contract §3), which
 * earlier versions made, remain valid.
 */

const KEY = /^(twk_([a-z2-7]{8})_[0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;
const EARLIER_KEY = /^tk_([A-Za-z0-9]{8})_[A-Za-z0-9_-]{43}$/;
const PREFIX_ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const SECRET_DIGITS = 43;
const CHECKSUM_DIGITS = 6;

export const KEY_PREFIX = /^[A-Za-z0-9]{8}$/;

export interface NewApiKey {
  prefix: string;
  /** Shown once. */
  key: string;
  hash: string;
}

export function newApiKey(): NewApiKey {
  const prefix = Array.from(randomBytes(8), (byte) => PREFIX_ALPHABET[byte % PREFIX_ALPHABET.length]).join('');
  const secret = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), SECRET_DIGITS);
  const checked = `twk_${prefix}_${secret}`;
  const key = checked + checksumOf(checked);
  return { prefix, key, hash: hashApiKey(key) };
}

/** Whether a text begins like an API key; it is not looked up. */
export const isApiKey = (text: string): boolean => text.startsWith('twk_') || text.startsWith('tk_');

/**
 * The prefix by which a presented key is looked up; null if the text does not have the form of a key, or its checksum is
 * wrong.
 */
export function apiKeyPrefix(key: string): string | null {
  const [, checked = '', prefix = null, checksum] = KEY.exec(key) ?? [];
  if (prefix !== null) return checksum === checksumOf(checked) ? prefix : null;
  return EARLIER_KEY.exec(key)?.[1] ?? null;
}

/** SHA-256 of the complete key. A slow hash is unnecessary for 32 random bytes. */
export const hashApiKey = (key: string): string => hash('sha256', key, 'base64url');

/** Whether the hash of `key` equals `storedHash`, in constant time. */
export function matchesHash(key: string, storedHash: string): boolean {
  const [given, expected] = [Buffer.from(hashApiKey(key)), Buffer.from(storedHash)];
  return given.length === expected.length && timingSafeEqual(given, expected);
}

const checksumOf = (text: string): string => base62(BigInt(crc32(text)), CHECKSUM_DIGITS);

/** Most significant digit first, padded with zeros. */
function base62(value: bigint, digits: number): string {
  let text = '';
  for (let rest = value; text.length < digits; rest /= 62n) text = BASE62.charAt(Number(rest % 62n)) + text;
  return text;
}
