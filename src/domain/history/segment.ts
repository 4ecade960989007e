import { compress, decompress, packTimes, packValues, unpackTimes, unpackValues } from './columns.ts';
import { bySampleOrder, type Sample, type SampleValue } from './sample.ts';

/** The columns of a segment: times, received minus own time, differences of sequence numbers, values. */
interface SegmentColumns {
  t: number[];
  r: number[];
  s: number[];
  v: ReturnType<typeof packValues>;
}

/** A segment: samples of one property as compressed columns. Sorts the samples. */
export function encodeSegment(samples: Sample[]): Promise<Buffer> {
  samples.sort(bySampleOrder);
  const columns: SegmentColumns = {
    t: packTimes(samples.map(({ time }) => time)),
    r: samples.map(({ at, time }) => at - time),
    s: packTimes(samples.map(({ sequence }) => sequence)),
    v: packValues(samples.map(({ value }) => value)),
  };
  return compress(columns);
}

/** In the order of the series. */
export function decodeSegment(bytes: Uint8Array): Sample[] {
  const { t, r, s, v } = decompress<SegmentColumns>(bytes);
  const values = unpackValues<SampleValue>(v);
  const sequences = unpackTimes(s);
  return unpackTimes(t).map((time, n) => ({
    time,
    at: time + (r[n] as number),
    sequence: sequences[n] as number,
    value: values[n] as SampleValue,
  }));
}
