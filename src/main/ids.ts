import { v7 } from 'uuid';
import { type Clock, systemClock } from '../domain/clock.ts';
import { publicRandom } from '../domain/public-random.ts';
import type { Uuid } from '../domain/values.ts';

/** Creates a UUIDv7 generator with the time of `clock`. Each id sorts after all earlier ones of the same generator. */
export function makeIds(clock: Pick<Clock, 'now'>): () => Uuid {
  let milliseconds = Number.NEGATIVE_INFINITY;
  let sequence = 0;
  return () => {
    const random = publicRandom(16);
    const now = clock.now();
    if (now > milliseconds) {
      milliseconds = now;
      sequence = random.readUInt32BE(6) & 0x7fffffff;
    } else {
      sequence = (sequence + 1) | 0;
      if (sequence === 0) milliseconds += 1;
    }
    return v7({ random, msecs: milliseconds, seq: sequence });
  };
}

/** For identifiers that are never stored, with the host's wall clock. */
export const newId = makeIds(systemClock);
