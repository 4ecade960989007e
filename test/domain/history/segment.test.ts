import { expect, it } from 'vitest';
import { bySampleOrder, type Sample } from '../../../src/domain/history/sample.ts';
import { decodeSegment, encodeSegment, SegmentEncoder } from '../../../src/domain/history/segment.ts';
import { expectReached, fc, runs } from '../../support/properties.ts';

/** A change of one sample, and of its value alone for `value`. */
const change = fc.record({ of: fc.constantFrom('value', 'time', 'at', 'sequence'), n: fc.nat(), by: fc.nat(3) });
const series = fc.record({ count: fc.nat(6), changes: fc.array(change, { maxLength: 2 }) });

it('segments of several properties have the samples of each, with the same and with other times', async () => {
  const reached = { same: 0, other: 0 };
  const all = fc.asyncProperty(fc.array(series, { minLength: 1, maxLength: 6 }), async (properties) => {
    const encoder = new SegmentEncoder();
    let before: Sample[] = [];
    for (const { count, changes } of properties) {
      const samples = Array.from({ length: count }, (_, n): Sample => {
        return { time: 1_000 * n, at: 1_000 * n + 20, sequence: n + 1, value: n };
      });
      for (const { of, n, by } of changes) {
        const changed = samples[n % Math.max(1, count)];
        if (changed !== undefined) changed[of as 'time'] += by * 1_000;
      }
      const expected = samples.toSorted(bySampleOrder);
      const isSame =
        expected.length === before.length && expected.every((one, n) => !bySampleOrder(one, at(before, n)));
      reached[isSame ? 'same' : 'other'] += 1;
      const body = await encoder.encode(samples);
      expect(decodeSegment(body)).toEqual(expected);
      expect(body.equals(await encodeSegment([...expected]))).toBe(true);
      before = expected;
    }
  });
  await fc.assert(all, runs(100));
  expectReached(() => expect(Math.min(...Object.values(reached))).toBeGreaterThan(20));
});

const at = (samples: readonly Sample[], n: number): Sample => samples[n] as Sample;

it('a segment of any length and level of compression has all of its samples', async () => {
  for (const count of [0, 1, 500, 20_000]) {
    for (const encoder of [new SegmentEncoder(), new SegmentEncoder(1)]) {
      const samples = Array.from({ length: count }, (_, n): Sample => {
        return { time: 60_000 * n, at: 60_000 * n + (n % 7), sequence: n, value: (n * n) % 1_009 };
      });
      expect(decodeSegment(await encoder.encode([...samples]))).toEqual(samples);
    }
  }
});
