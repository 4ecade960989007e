import { randomFillSync } from 'node:crypto';

/*
 * Random bytes for values that are public but must be unpredictable: nonces and ids. They are drawn in advance, because
 * a call of the system's generator takes 2 µs for 16 bytes as well as for 8,192. Not for keys, secrets or tokens: the
 * pool would keep their bytes in memory.
 */

const POOL_BYTES = 8_192;
const pool = Buffer.allocUnsafeSlow(POOL_BYTES);
let used = POOL_BYTES;

/** Fresh random bytes, valid until the next call. At most 64. */
export function publicRandom(bytes: number): Buffer {
  if (used + bytes > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return pool.subarray(used - bytes, used);
}
