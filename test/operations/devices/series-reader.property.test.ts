import { expect, it } from 'vitest';
import { rowFormats } from '../../../src/domain/history/export-rows.ts';
import { bySampleOrder, type Sample, type SampleValue, type StoredReport } from '../../../src/domain/history/sample.ts';
import { iso } from '../../../src/domain/iso-time.ts';
import { blocksOf } from '../../../src/operations/devices/history-export.ts';
import { readManyBuckets, readManySamples } from '../../../src/operations/devices/series-reader.ts';
import type { Store } from '../../../src/store/contract.ts';
import { withCloseSum } from '../../support/bucket-matchers.ts';
import { testClock } from '../../support/clock.ts';
import { bucketsOf, compactionOf, DAY, HOUR, MINUTE, ReportingDevice, summaryOf } from '../../support/history-model.ts';
import { MemoryDatabase } from '../../support/memory-store/database.ts';
import { openMemoryStore } from '../../support/memory-store/store.ts';
import { expectReached, fc, runs } from '../../support/properties.ts';
import { slow } from '../../support/slow.ts';

const START = Date.UTC(2026, 2, 1);
/** Samples of the days before it are imported. */
const REGISTERED = START + 4 * DAY;

const value: fc.Arbitrary<SampleValue> = fc.constantFrom<SampleValue[]>(
  0,
  1.5,
  -3,
  0.1234567,
  'on',
  'off',
  true,
  false,
);
const report = fc.record({ offset: fc.integer({ min: -3, max: 3 }), value });
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      after: fc.oneof(fc.nat(3 * MINUTE), fc.nat(DAY)),
      reports: fc.array(report, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      imported: fc.array(fc.record({ time: fc.nat(4 * 24 - 1), value }), { minLength: 1, maxLength: 6 }),
    }),
  },
  { weight: 2, arbitrary: fc.constantFrom<('sweep' | 'compact')[]>('sweep', 'compact') },
);
const query = fc.record({
  from: fc.integer({ min: -24, max: 12 * 24 }),
  hours: fc.nat(10 * 24),
  limit: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.constant(1_000)),
  /** Reports of the end of the history that wait for a commit: stored since, and not stored. */
  committed: fc.nat(2),
  pending: fc.array(report, { maxLength: 2 }),
});

/** The samples of a device with `level` in every report and `mode` in every second one. */
async function deviceAfter(store: Store, steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[]) {
  const clock = testClock(REGISTERED);
  const device = new ReportingDevice(store, undefined, REGISTERED);
  await device.register();
  const compaction = compactionOf(store, clock);
  const valuesOf = (one: SampleValue, n: number) => (n % 2 === 0 ? { level: one } : { level: one, mode: one });
  for (const one of steps) {
    if (one === 'sweep') await compaction.sweep();
    else if (one === 'compact') {
      compaction.recordImport(device.id, device.tenantId);
      await compaction.compactBusy();
    } else if ('imported' in one) {
      const reports = one.imported.map(({ time, value: of }, n) => ({
        time: START + time * HOUR,
        values: valuesOf(of, n),
      }));
      await device.import(clock.now(), ...reports);
    } else {
      clock.advance(one.after);
      const reports = one.reports.map(({ offset, value: of }, n) => ({
        time: clock.now() + offset * MINUTE,
        values: valuesOf(of, n),
      }));
      await device.report(clock.now(), ...reports);
    }
  }
  expect(compaction.failures).toBe(0);
  return { device, end: clock.now() };
}

/** Up to `limit`, and all with the time of the next one. */
function limited(samples: readonly Sample[], limit: number): Sample[] {
  const next = samples[limit];
  return samples.filter((sample, n) => n <= limit || sample.time === next?.time);
}

const changesOf = (samples: readonly Sample[], before: SampleValue | null): Sample[] =>
  samples.filter((sample, n) => sample.value !== (samples[n - 1]?.value ?? before));

it(
  'reads the samples of each range, the value before it, and an export of it, as computed from all reports',
  slow,
  async () => {
    const reached = { merged: 0, tail: 0, parts: 0, before: 0, limited: 0, pending: 0 };
    const walk = fc.asyncProperty(
      fc.array(step, { minLength: 3, maxLength: 25 }),
      fc.array(query, { minLength: 1, maxLength: 3 }),
      async (steps, queries) => {
        const store = openMemoryStore(new MemoryDatabase());
        const { device, end } = await deviceAfter(store, steps);
        const { tenantId, id: deviceId } = device;
        const stored = await store.history.series(
          tenantId,
          [{ deviceId, property: 'level' }],
          { from: 0, to: 1e5 },
          null,
        );
        reached.merged += stored[0]?.days.length ?? 0;
        reached.tail += stored[0]?.tail.length ?? 0;
        reached.parts += stored[0]?.parts.length ?? 0;
        for (const { from: hour, hours, limit, committed, pending } of queries) {
          const [from, to] = [START + hour * HOUR, START + (hour + hours + 1) * HOUR];
          const waiting = pending.map(({ offset, value: of }, n): Sample => {
            return { time: end + offset * MINUTE, at: end, sequence: 1_000 + n, value: of };
          });
          const all = ['level', 'mode'].map((property) => {
            const series = device.seriesOf(property);
            const samples = [...(committed === 0 ? [] : series.slice(-committed)), ...waiting];
            const reports = samples.map(
              ({ at, time, sequence, value: of }): StoredReport => [at, time, sequence, { [property]: of }],
            );
            const expected = [...series, ...waiting].sort(bySampleOrder);
            const inRange = expected.filter(({ time }) => time >= from && time < to);
            const before = expected.findLast(({ time }) => time < from);
            return { key: { deviceId, property, pending: reports }, expected, inRange, before };
          });
          const request = { tenantId, from, to, keys: all.map(({ key }) => key) };
          const read = await readManySamples({ store }, request, limit);
          const expected = all.map(({ inRange, before }) => ({
            samples: limited(inRange, limit),
            before: before?.value ?? null,
          }));
          expect(read.ok && read.value).toEqual(expected);
          const without = await readManySamples({ store }, { ...request, withoutBefore: true }, limit);
          expect(without.ok && without.value.map(({ samples }) => samples)).toEqual(
            expected.map(({ samples }) => samples),
          );
          for (const length of hours < 12 ? [90_000, 20 * MINUTE, HOUR] : [20 * MINUTE, HOUR]) {
            const buckets = await readManyBuckets({ store }, request, length, to);
            const ofModel = all.map(({ expected: samples }) => bucketsOf(samples, from, to, length).map(withCloseSum));
            expect(buckets.ok && buckets.value.series.map((one) => one.buckets.map(summaryOf)), `${length}`).toEqual(
              ofModel,
            );
            expect(buckets.ok && buckets.value.series.map((one) => one.before)).toEqual(
              expected.map(({ before: value }) => value),
            );
          }
          for (const { key, inRange, before } of all) {
            if (before !== undefined) reached.before += 1;
            if (inRange.length > limit) reached.limited += 1;
            reached.pending += inRange.filter(({ sequence }) => sequence >= 1_000).length;
            const exported = async (exportStep: 'raw' | 'changes') => {
              const range = { from, to, now: end, step: exportStep, retained: to - from };
              const parts = { tenantId, deviceId, pending: key.pending, range, shown: new Set<never>() };
              let text = '';
              for await (const block of blocksOf({ store }, parts, key.property, rowFormats.ndjson()))
                text += block.text;
              return text
                .split('\n')
                .slice(0, -1)
                .map((line) => JSON.parse(line));
            };
            const rowOf = ({ time, at, sequence, value: of }: Sample) => ({
              ...{ at: iso(time), property: key.property, value: of, received_at: iso(at), sequence_number: sequence },
            });
            expect(await exported('raw')).toEqual(inRange.map(rowOf));
            expect(await exported('changes')).toEqual(changesOf(inRange, before?.value ?? null).map(rowOf));
          }
        }
      },
    );
    await fc.assert(walk, runs(25));
    expectReached(() => expect(Math.min(...Object.values(reached)), JSON.stringify(reached)).toBeGreaterThan(0));
  },
);
