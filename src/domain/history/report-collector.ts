import { dayOf } from '../day.ts';
import { forEachLeaf, type Sample, type StoredReport } from './sample.ts';

/** A device may have samples of so many properties a day, so that random names do not fill the store. */
export const MAX_DAY_PROPERTIES = 256;
/** And so many samples of each a day: one a second, and some more. They are in memory when the day is merged. */
export const MAX_DAY_SAMPLES = 100_000;

/** The samples of one property and day. */
export interface CollectedSeries {
  property: string;
  day: number;
  samples: Sample[];
}

/** Divides reports into the series of properties and days. */
export class ReportCollector {
  /** Samples beyond the limits. */
  dropped = 0;
  readonly #series = new Map<number, Map<string, CollectedSeries>>();
  /** Number of samples by day and property, with those stored before. */
  readonly #counts = new Map<number, Map<string, number>>();

  /** `stored`: the number of samples that the days of the reports have already. */
  constructor(stored: readonly { property: string; day: number; samples: number }[]) {
    for (const { property, day, samples } of stored) this.#countsOf(day).set(property, samples);
  }

  add(report: StoredReport): void {
    const [at, time, sequence] = report;
    const day = dayOf(time);
    const counts = this.#countsOf(day);
    forEachLeaf(report, (property, value) => {
      const count = counts.get(property);
      if (count === undefined ? counts.size >= MAX_DAY_PROPERTIES : count >= MAX_DAY_SAMPLES) {
        this.dropped += 1;
        return;
      }
      counts.set(property, (count ?? 0) + 1);
      this.#seriesOf(day, property).samples.push({ time, at, sequence, value });
    });
  }

  series(): CollectedSeries[] {
    return [...this.#series.values()].flatMap((properties) => [...properties.values()]);
  }

  #countsOf(day: number): Map<string, number> {
    let counts = this.#counts.get(day);
    if (counts === undefined) {
      counts = new Map();
      this.#counts.set(day, counts);
    }
    return counts;
  }

  #seriesOf(day: number, property: string): CollectedSeries {
    let properties = this.#series.get(day);
    if (properties === undefined) {
      properties = new Map();
      this.#series.set(day, properties);
    }
    let series = properties.get(property);
    if (series === undefined) {
      series = { property, day, samples: [] };
      properties.set(property, series);
    }
    return series;
  }
}
