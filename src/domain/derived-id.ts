import { hash } from 'node:crypto';
import type { EpochMs, Uuid } from './values.ts';

/**
 * The id of something that another thing brings about: a UUID version 7 of that moment whose other bits are a digest of the
 * names. Equal names at one moment are one id, so that what is asked for twice is made once.
 */
export function derivedId(at: EpochMs, ...names: readonly (string | number)[]): Uuid {
  const time = Math.max(0, Math.trunc(at)).toString(16).padStart(12, '0');
  const digest = hash('sha256', JSON.stringify(names));
  const variant = '89ab'[Number.parseInt(digest[3] as string, 16) % 4];
  return `${time.slice(0, 8)}-${time.slice(8)}-7${digest.slice(0, 3)}-${variant}${digest.slice(4, 7)}-${digest.slice(7, 19)}`;
}
