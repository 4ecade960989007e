import type { EpochMs } from '../domain/values.ts';
import type { Envelope } from './envelope.ts';

/** What a device itself said. Its words are kept in the order in which they came. */
export const isFromDevice = (letter: Envelope): boolean =>
  letter.event.by?.kind === 'device' && letter.outboxKey === null && !letter.sentWithinBatch;

/**
 * Parts an actor's letters, in their order, into those that wait on and those whose sender waits no longer. With a
 * device's word goes all that it said after it: it sends the first again, which must not be kept after the second. An
 * answered letter is in neither.
 */
export function splitExpired(letters: readonly Envelope[], now: EpochMs): { on: Envelope[]; over: Envelope[] } {
  const on: Envelope[] = [];
  const over: Envelope[] = [];
  let overtaken = false;
  for (const letter of letters) {
    const givenUp = letter.answered || now - letter.sentAt >= letter.timeoutMs;
    if (!letter.answered) (givenUp || (overtaken && isFromDevice(letter)) ? over : on).push(letter);
    overtaken ||= givenUp && isFromDevice(letter);
  }
  return { on, over };
}
