import { v7 } from 'uuid';
import { type Clock, systemClock } from '../domain/clock.ts';
import { publicRandom } from '../domain/public-random.ts';
import type { Uuid } from '../domain/values.ts';

/** Makes UUIDv7 of the time that `clock` says, each of which sorts behind every earlier one of the same maker. */
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

/** For identifiers that are never stored: by the host's wall clock. */
export const newId = makeIds(systemClock);
