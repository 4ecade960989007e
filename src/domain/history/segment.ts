import {
  ColumnReader,
  type CompressionLevel,
  compress,
  decompress,
  expectSameLength,
  packTimes,
  packValues,
  TimeReader,
} from './columns.ts';
import { bySampleOrder, type Sample, type SampleValue } from './sample.ts';

/** The columns of a segment: times, received minus own time, differences of sequence numbers, values. */
interface SegmentColumns {
  t: number[];
  r: number[];
  s: number[];
  v: ReturnType<typeof packValues>;
}

/** A segment: samples of one property as compressed columns. Sorts the samples. */
export const encodeSegment = (samples: Sample[]): Promise<Buffer> => new SegmentEncoder().encode(samples);

/** Encodes the segments of several properties of the same reports, most of which have the same times. */
export class SegmentEncoder {
  readonly #level: CompressionLevel | undefined;
  /** The samples that were encoded last, and the JSON text of their columns without the values. */
  #last: readonly Sample[] | null = null;
  #times = '';

  constructor(level?: CompressionLevel) {
    this.#level = level;
  }

  /** Sorts the samples. */
  encode(samples: Sample[]): Promise<Buffer> {
    samples.sort(bySampleOrder);
    const values = JSON.stringify(packValues(samples.map(({ value }) => value)));
    return compress(`{${this.#timesOf(samples)},"v":${values}}`, this.#level);
  }

  #timesOf(samples: readonly Sample[]): string {
    if (this.#last === null || !haveSameTimes(samples, this.#last)) {
      const t = packTimes(samples.map(({ time }) => time));
      const r = samples.map(({ at, time }) => at - time);
      const s = packTimes(samples.map(({ sequence }) => sequence));
      this.#times = `"t":[${t}],"r":[${r}],"s":[${s}]`;
    }
    this.#last = samples;
    return this.#times;
  }
}

function haveSameTimes(samples: readonly Sample[], others: readonly Sample[]): boolean {
  if (samples.length !== others.length) return false;
  for (let n = 0; n < samples.length; n += 1)
    if (bySampleOrder(samples[n] as Sample, others[n] as Sample) !== 0) return false;
  return true;
}

/** In the order of the series. */
export const decodeSegment = (bytes: Uint8Array): Sample[] => [...samplesIn(bytes)];

/** The same one by one, without a list of them, which takes ten times as much memory as the columns. */
export function* samplesIn(bytes: Uint8Array): Generator<Sample> {
  const { t, r: delays, s, v } = decompress<SegmentColumns>(bytes);
  expectSameLength(t, delays, s);
  const times = new TimeReader(t);
  const sequences = new TimeReader(s);
  const values = new ColumnReader<SampleValue>(v);
  for (const delay of delays) {
    const time = times.next();
    yield { time, at: time + delay, sequence: sequences.next(), value: values.next() };
  }
}
