import { DAY_MS } from './day.ts';
import { iso } from './iso-time.ts';
import type { EpochMs } from './values.ts';

/** Characters of the time after the date and its `T`. */
const TIME_LENGTH = '00:00:00.000Z'.length;

const digits = (count: number): readonly string[] =>
  Array.from({ length: 10 ** count }, (_, n) => `${n}`.padStart(count, '0'));
const twoDigits = digits(2);
const threeDigits = digits(3);

/** Writes times as `iso` does. Many are of the same day, whose date is written once. */
export class IsoTimes {
  #start: EpochMs = Number.NaN;
  #date = '';

  text(at: EpochMs): string {
    let rest = at - this.#start;
    if (!(rest >= 0 && rest < DAY_MS)) {
      this.#start = Math.floor(at / DAY_MS) * DAY_MS;
      this.#date = iso(this.#start).slice(0, -TIME_LENGTH);
      rest = at - this.#start;
    }
    const ms = rest % 1_000;
    const seconds = (rest - ms) / 1_000;
    const minutes = Math.floor(seconds / 60);
    const hours = Math.floor(minutes / 60);
    return `${this.#date}${twoDigits[hours]}:${twoDigits[minutes % 60]}:${twoDigits[seconds % 60]}.${threeDigits[ms]}Z`;
  }
}
