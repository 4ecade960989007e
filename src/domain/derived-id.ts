import { hash } from 'node:crypto';
import type { EpochMs, Uuid } from './values.ts';

/**
 * A deterministic id for something that an event creates: a UUID version 7 of that time whose remaining bits are a
 * digest of the names. Equal time and names give the same id, so a repeated event creates it only once.
 */
export function derivedId(at: EpochMs, ...names: readonly (string | number)[]): Uuid {
  const time = Math.max(0, Math.trunc(at)).toString(16).padStart(12, '0');
  const digest = hash('sha256', JSON.stringify(names));
  const variant = '89ab'[Number.parseInt(digest[3] as string, 16) % 4];
  return `${time.slice(0, 8)}-${time.slice(8)}-7${digest.slice(0, 3)}-${variant}${digest.slice(4, 7)}-${digest.slice(7, 19)}`;
}
