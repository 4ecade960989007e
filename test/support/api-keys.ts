import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { hashApiKey } from '../../src/domain/api-key.ts';
import type { ApiKey } from '../../src/store/contract.ts';

const DIGITS = [...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'];

/** The text with its CRC-32 in base 62, as docs/authentication.md defines the checksum of a key. */
export function withChecksum(text: string): string {
  const sum = crc32(text);
  const digits = [5, 4, 3, 2, 1, 0].map((power) => DIGITS[Math.floor(sum / 62 ** power) % 62]);
  return text + digits.join('');
}

/** A key of the earlier form `tk_…`, and its row. */
export function earlierApiKey(of: Pick<ApiKey, 'tenantId' | 'userId'>): { key: string; row: ApiKey } {
  const prefix = randomBytes(4).toString('hex');
  const key = `tk_${prefix}_${randomBytes(32).toString('base64url')}`;
  const row: ApiKey = {
    ...{ ...of, prefix, hash: hashApiKey(key), name: 'earlier', scopes: [], roleCap: 'admin' },
    ...{ createdAt: 0, lastUsedAt: null, expiresAt: null, revokedAt: null, restriction: null },
    ...{ graceUntil: null, replacedBy: null, replaces: null },
  };
  return { key, row };
}
