import { hash, randomBytes, timingSafeEqual } from 'node:crypto';

// API keys: `tk_<prefix>_<secret>` (contract §3). The prefix identifies the key; the secret is never stored.

const KEY = /^tk_([A-Za-z0-9]{8})_[A-Za-z0-9_-]{43}$/;
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';

export const KEY_PREFIX = /^[A-Za-z0-9]{8}$/;

export interface NewApiKey {
  prefix: string;
  /** Shown once. */
  key: string;
  hash: string;
}

export function newApiKey(): NewApiKey {
  const prefix = Array.from(randomBytes(8), (byte) => ALPHABET[byte % ALPHABET.length]).join('');
  const key = `tk_${prefix}_${randomBytes(32).toString('base64url')}`;
  return { prefix, key, hash: hashApiKey(key) };
}

/** Whether a text has the prefix of an API key; it is not looked up. */
export const isApiKey = (text: string): boolean => text.startsWith('tk_');

/** The prefix by which a presented key is looked up; null if the text does not have the form of a key. */
export const apiKeyPrefix = (key: string): string | null => KEY.exec(key)?.[1] ?? null;

/** SHA-256 of the complete key. A slow hash is unnecessary for 32 random bytes. */
export const hashApiKey = (key: string): string => hash('sha256', key, 'base64url');

/** Whether the hash of `key` equals `storedHash`, in constant time. */
export function matchesHash(key: string, storedHash: string): boolean {
  const [given, expected] = [Buffer.from(hashApiKey(key)), Buffer.from(storedHash)];
  return given.length === expected.length && timingSafeEqual(given, expected);
}
