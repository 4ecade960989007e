import { v7 } from 'uuid';
import { publicRandom } from '../domain/public-random.ts';
import type { Uuid } from '../domain/values.ts';

let milliseconds = Number.NEGATIVE_INFINITY;
let sequence = 0;

/** A UUIDv7 that sorts behind every earlier one of this process. */
export function newId(): Uuid {
  const random = publicRandom(16);
  const now = Date.now();
  if (now > milliseconds) {
    milliseconds = now;
    sequence = random.readUInt32BE(6) & 0x7fffffff;
  } else {
    sequence = (sequence + 1) | 0;
    if (sequence === 0) milliseconds += 1;
  }
  return v7({ random, msecs: milliseconds, seq: sequence });
}
