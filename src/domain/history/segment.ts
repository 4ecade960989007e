import { ColumnReader, compress, decompress, expectSameLength, packTimes, packValues, TimeReader } from './columns.ts';
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
