import type { EpochMs } from '../domain/values.ts';
import type { Letter } from './letters.ts';

/** What a device itself said. Its words are kept in the order in which they came. */
export const isDevices = (letter: Letter): boolean =>
  letter.event.by?.kind === 'device' && letter.delivers === null && !letter.companion;

/**
 * Parts an actor's letters, in their order, into those that wait on and those whose sender waits no longer. With a
 * device's word goes all that it said after it: it sends the first again, which must not be kept after the second. An
 * answered letter is in neither.
 */
export function partPatient(letters: readonly Letter[], now: EpochMs): { on: Letter[]; over: Letter[] } {
  const on: Letter[] = [];
  const over: Letter[] = [];
  let overtaken = false;
  for (const letter of letters) {
    const givenUp = letter.answered || now - letter.sentAt >= letter.patienceMs;
    if (!letter.answered) (givenUp || (overtaken && isDevices(letter)) ? over : on).push(letter);
    overtaken ||= givenUp && isDevices(letter);
  }
  return { on, over };
}
