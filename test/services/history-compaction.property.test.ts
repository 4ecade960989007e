import { expect, it } from 'vitest';
import { dayOf } from '../../src/domain/day.ts';
import { withCloseSum } from '../support/bucket-matchers.ts';
import { testClock } from '../support/clock.ts';
import { bucketsOf, compactionOf, DAY, HOUR, MINUTE, ReportingDevice, summaryOf } from '../support/history-model.ts';
import { MemoryDatabase } from '../support/memory-store/database.ts';
import { openMemoryStore } from '../support/memory-store/store.ts';
import { expectReached, fc, runs } from '../support/properties.ts';
import { slow } from '../support/slow.ts';

const START = Date.UTC(2026, 2, 1);

/** Milliseconds until the next commit, and the reports in it: how far their own time is from that of the receipt, and values. */
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      after: fc.oneof(fc.nat(3 * MINUTE), fc.nat(5 * HOUR)),
      reports: fc.array(
        fc.record({
          offset: fc.integer({ min: -5 * MINUTE, max: 5 * MINUTE }),
          level: fc.oneof(
            fc.integer({ min: -50, max: 50 }).map((tenths) => tenths / 10),
            fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e6, max: 1e6 }),
          ),
          mode: fc.constantFrom('a', 'b', true, false, 3, ...Array.from({ length: 20 }, (_, n) => `mode ${n}`)),
        }),
        { minLength: 1, maxLength: 4 },
      ),
    }),
  },
  { weight: 1, arbitrary: fc.constant('compact' as const) },
  { weight: 1, arbitrary: fc.constant('drop' as const) },
);

it(
  'reads the same samples and intervals as computed from all reports, in every order of arrival and compaction',
  slow,
  async () => {
    const reached = { merged: 0, tail: 0, parts: 0 };
    const walk = fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 60 }),
      fc.nat(2 * DAY),
      async (steps, offset) => {
        const store = openMemoryStore(new MemoryDatabase());
        const clock = testClock(START + 22 * HOUR);
        const device = new ReportingDevice(store);
        await device.register();
        const compaction = compactionOf(store, clock);
        for (const one of steps) {
          if (one === 'compact') await compaction.sweep();
          else if (one === 'drop') {
            const [today, first] = [dayOf(clock.now()), dayOf(START)];
            await store.history.dropPartitions(
              { today, samplesFrom: first, rollupsFrom: first },
              (await compaction.progress()).compactedBefore,
            );
          } else {
            clock.advance(one.after);
            await device.report(
              clock.now(),
              ...one.reports.map(({ offset: distance, level, mode }) => ({
                time: clock.now() + distance,
                values: { level, mode },
              })),
            );
          }
        }
        expect(compaction.failures).toBe(0);
        const keys = [{ deviceId: device.id, property: 'level' }];
        const [rows] = await store.history.series(device.tenantId, keys, { from: 0, to: 100_000 }, '1d');
        reached.merged += rows?.days.length ?? 0;
        reached.tail += rows?.tail.length ?? 0;
        reached.parts += rows?.parts.length ?? 0;
        const end = clock.now() + 10 * MINUTE;
        for (const property of ['level', 'mode']) {
          const series = device.seriesOf(property);
          const from = START + offset;
          expect(await device.read(property, from, end)).toEqual(device.seriesOf(property, from, end));
          const lastDay = [
            Math.max(START, Math.floor(clock.now() / DAY) * DAY),
            Math.ceil(end / 30_000) * 30_000,
          ] as const;
          const sampled = (await device.buckets(property, ...lastDay, 30_000)).buckets;
          const ofSamples = bucketsOf(series, ...lastDay, 30_000);
          expect(sampled.map(summaryOf), `${property} of the last day`).toEqual(ofSamples.map(withCloseSum));
          for (const length of [MINUTE, 15 * MINUTE, 2 * HOUR, DAY]) {
            const range = [Math.floor(from / length) * length, Math.ceil(end / length) * length] as const;
            const { buckets } = await device.buckets(property, ...range, length);
            const expected = bucketsOf(series, ...range, length);
            const compared = buckets.map(summaryOf).map(withTotalOfMany);
            expect(compared, `${property} ${length}`).toEqual(expected.map(withTotalOfMany).map(withCloseSum));
          }
        }
      },
    );
    await fc.assert(walk, runs(40));
    expectReached(() => expect(Math.min(...Object.values(reached))).toBeGreaterThan(0));
  },
);

/** A state that lasts into a day may be among those of which its roll-up has only the total. */
function withTotalOfMany(bucket: ReturnType<typeof summaryOf>): ReturnType<typeof summaryOf> {
  if (!bucket.states.some(([state]) => state === null)) return bucket;
  return { ...bucket, states: [[null, bucket.states.reduce((sum, [, lasted]) => sum + lasted, 0)]] };
}
