import { randomFillSync } from 'node:crypto';

/*
 * Randomness for what everybody may see and nobody may guess beforehand: nonces and ids. It is drawn in advance, because a call of
 * the system's generator costs 2 µs for 16 bytes or for 8,192. Never for a key, a secret or a token: those bytes would lie about.
 */

const POOL_BYTES = 8_192;
const pool = Buffer.allocUnsafeSlow(POOL_BYTES);
let used = POOL_BYTES;

/** Fresh random bytes, good until the next call. At most 64. */
export function publicRandom(bytes: number): Buffer {
  if (used + bytes > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return pool.subarray(used - bytes, used);
}
