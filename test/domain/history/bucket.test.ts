import { expect, it } from 'vitest';
import {
  BucketMerger,
  limitStates,
  MAX_STATES,
  meanOf,
  type NumberSummary,
  rollUp,
} from '../../../src/domain/history/bucket.ts';
import { compress, decompress } from '../../../src/domain/history/columns.ts';
import { decodeRollup, encodeRollup, forEachBucket } from '../../../src/domain/history/rollup.ts';
import type { Sample, SampleValue } from '../../../src/domain/history/sample.ts';
import { decodeSegment, encodeSegment } from '../../../src/domain/history/segment.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const START = Date.UTC(2026, 2, 1);

const samplesOf = (values: readonly SampleValue[], apart: number) =>
  values.map((value, n) => ({ time: START + n * apart, at: START, sequence: n + 1, value }));

it('a sum beyond the range of a number has no mean, also after it was stored and merged', async () => {
  const buckets = rollUp(samplesOf([1e308, 1e308, -1e308, 4, 5, 6], 20_000), MINUTE);
  const stored = decodeRollup(await encodeRollup(START, MINUTE, buckets), START, MINUTE);
  expect(stored).toEqual(buckets);
  expect(stored.map(({ numbers }) => meanOf(numbers as NumberSummary))).toEqual([null, 5]);
  const merger = new BucketMerger(HOUR, START);
  for (const bucket of stored) merger.add(bucket, bucket.start + MINUTE);
  const [merged] = merger.finish(START + HOUR);
  expect(merged?.numbers).toMatchObject({ count: 6, min: -1e308, max: 1e308 });
  expect(meanOf(merged?.numbers as NumberSummary)).toBeNull();
  expect(meanOf({ count: 1, min: 1e308, max: 1e308, sum: 1e308 })).toBe(1e308);
});

it('a merged interval names the longest states, and keeps the time of all', () => {
  const merger = new BucketMerger(HOUR, START);
  const values = Array.from({ length: 3_600 }, (_, n) => (n % 4 === 0 ? 'idle' : `state ${n}`));
  for (const bucket of rollUp(samplesOf(values, 1_000), MINUTE)) merger.add(bucket, bucket.start + MINUTE);
  const [merged] = merger.finish(START + HOUR);
  expect(merged?.states).toHaveLength(MAX_STATES + 1);
  expect(merged?.states[0]).toEqual(['idle', 900_000]);
  expect(merged?.states.reduce((sum, [, lasted]) => sum + lasted, 0)).toBe(HOUR);
});

it('intervals with many states name fewer each, and keep the time of all', () => {
  const values = Array.from({ length: 600 }, (_, n) => `state ${n % 20}`);
  const buckets = rollUp(samplesOf(values, 1_000), MINUTE);
  expect(limitStates(buckets, 170)).toBe(buckets);
  const limited = limitStates(buckets, 60);
  expect(limited.map(({ states }) => states.length)).toEqual(Array.from({ length: 10 }, () => 6));
  for (const [n, { states, ...bucket }] of limited.entries()) {
    expect(states.slice(0, 5)).toEqual(buckets[n]?.states.slice(0, 5));
    expect(states[5]).toEqual([null, 45_000]);
    expect(bucket).toEqual({ ...buckets[n], states: undefined });
  }
  expect(limitStates(buckets, 1).map(({ states }) => states.length)).toEqual(Array.from({ length: 10 }, () => 2));
});

const mixed: SampleValue[] = [1.5, 'on', 'on', 2, 7, true, 1, 1, 1];

it('the buckets of a stored day are visited as one object, and listed as several', async () => {
  const buckets = rollUp(samplesOf(mixed, 20_000), MINUTE);
  const body = await encodeRollup(START, MINUTE, buckets);
  const visited: unknown[] = [];
  const objects = new Set<object>();
  forEachBucket(body, START, MINUTE, (bucket) => {
    visited.push(structuredClone(bucket));
    objects.add(bucket);
  });
  expect(visited).toEqual(buckets);
  expect(objects.size).toBe(1);
  expect(decodeRollup(body, START, MINUTE)).toEqual(buckets);
});

it('a column that is too short is an error, so that no sample or bucket is left out or has no value', async () => {
  const samples = samplesOf(mixed, 20_000);
  const bodies: [body: Uint8Array, read: (body: Uint8Array) => unknown, columns: string[]][] = [
    [await encodeSegment(samples as Sample[]), decodeSegment, ['t', 'r', 's', 'v']],
    [
      await encodeRollup(START, MINUTE, rollUp(samples, MINUTE)),
      (body) => decodeRollup(body, START, MINUTE),
      ['i', 'c', 'n', 'lo', 'hi', 'su', 'la'],
    ],
  ];
  for (const [body, read, names] of bodies) {
    for (const name of names) {
      const columns = decompress<Record<string, unknown>>(body);
      const column = columns[name] as number[] | { d?: number[]; n?: number[]; i?: number[] };
      const items = Array.isArray(column) ? column : (column.d ?? column.n ?? column.i);
      items?.pop();
      const short = await compress(JSON.stringify(columns));
      expect(() => read(short), name).toThrow('too short');
    }
  }
});
