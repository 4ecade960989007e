import { afterAll, beforeAll, expect, it } from 'vitest';
import { DAY_MS, dayOf } from '../../../src/domain/day.ts';
import { HistoryUpkeep } from '../../../src/main/history-upkeep.ts';
import type { HistoryCompaction } from '../../../src/services/history-compaction.ts';
import { type TestClock, testClock } from '../../support/clock.ts';
import { bucketsOf, compactionOf, HOUR, MINUTE, ReportingDevice, summaryOf } from '../../support/history-model.ts';
import { oneDatabase } from '../../support/store.ts';

const ROLLUP_PARTITION_DAYS = 30;
/** The first day of a partition of roll-ups, so that it expires as a whole. */
const FIRST = Math.floor(dayOf(Date.UTC(2026, 2, 1)) / ROLLUP_PARTITION_DAYS) * ROLLUP_PARTITION_DAYS;
const START = FIRST * DAY_MS;
const SAMPLE_DAYS = 7;
const ROLLUP_DAYS = 8;
const DAYS = ROLLUP_PARTITION_DAYS + ROLLUP_DAYS;
const END = START + DAYS * DAY_MS;
/** Partitions that the last night has made. */
const DAYS_AHEAD = 4;
const BUSY_MS = 40 * MINUTE;
const QUIET_MS = 6 * HOUR;
/** Each test reports for some of the days, to end long before its time limit. */
const PERIOD_DAYS = 4;
const PERIODS = Array.from({ length: Math.ceil(DAYS / PERIOD_DAYS) }, (_, n) => {
  const from = n * PERIOD_DAYS;
  return [from, Math.min(from + PERIOD_DAYS, DAYS)] as const;
});

oneDatabase('a month of history', (backend) => {
  const store = () => backend().store;
  let busy: ReportingDevice;
  let quiet: ReportingDevice;
  let clock: TestClock;
  let compaction: HistoryCompaction;
  let upkeep: HistoryUpkeep;
  const errors: string[] = [];

  beforeAll(async () => {
    clock = testClock(START);
    compaction = compactionOf(store(), clock);
    const record = (_: object, message: string): void => void errors.push(message);
    upkeep = new HistoryUpkeep({
      ...{ history: store().history, compaction, clock, isLeader: () => true },
      retention: { base: { samples: SAMPLE_DAYS, rollups: ROLLUP_DAYS }, byTier: {} },
      log: { debug() {}, info() {}, warn: record, error: record },
    });
    busy = new ReportingDevice(store());
    quiet = new ReportingDevice(store());
    await busy.register();
    await quiet.register();
  });
  afterAll(async () => {
    await upkeep.stop();
    // The next suite uses the same database.
    const later = FIRST + 1_000;
    await store().history.dropPartitions({ today: later, samplesFrom: later, rollupsFrom: later }, later * DAY_MS);
  });

  const levelAt = (at: number) => 20 + Math.round(40 * Math.sin(at / DAY_MS)) / 10;

  /** A day of reports: two in each commit of the one device, the values of the other one change seldom. */
  async function reportDay(day: number): Promise<void> {
    const from = START + day * DAY_MS;
    for (let at = from + 5 * MINUTE; at < from + DAY_MS; at += BUSY_MS) {
      const report = (time: number) => ({ time, values: { level: levelAt(time), on: (time / BUSY_MS) % 7 < 3 } });
      await busy.report(at, report(at - 5 * MINUTE), report(at));
    }
    for (let at = from; at < from + DAY_MS; at += QUIET_MS)
      await quiet.report(at, { values: { mode: day % 9 < 5 ? 'auto' : 'manual' } });
  }

  it.each(PERIODS)('is kept, merged and dropped each night from day %i to day %i', async (from, to) => {
    for (let day = from; day < to; day += 1) {
      await store().history.makePartitions(FIRST + day);
      await reportDay(day);
      clock.set(START + (day + 1) * DAY_MS + HOUR);
      await compaction.sweep();
      await upkeep.dropExpired(clock.now());
    }
    expect([errors, compaction.failures]).toEqual([[], 0]);
    expect(compaction.dropped).toEqual({ bytes: 0, limit: 0, expired: 0 });
    expect(await compaction.progress()).toMatchObject({ openFrom: null });
  });

  it('has the samples of a week, and none before', async () => {
    const from = END - SAMPLE_DAYS * DAY_MS;
    for (const [device, property] of [
      [busy, 'level'],
      [busy, 'on'],
      [quiet, 'mode'],
    ] as const) {
      expect(await device.read(property, from, END)).toEqual(device.seriesOf(property, from, END));
      expect(await device.read(property, START, from)).toEqual([]);
    }
  });

  it('has the intervals of the days whose roll-ups are kept, and none before', async () => {
    const from = START + ROLLUP_PARTITION_DAYS * DAY_MS;
    for (const [device, property, step] of [
      [busy, 'level', HOUR],
      [busy, 'on', 15 * MINUTE],
      [busy, 'on', DAY_MS],
      [quiet, 'mode', DAY_MS],
    ] as const) {
      const { source, buckets } = await device.buckets(property, from, END, step);
      expect(source).not.toBe('samples');
      // Sums of roll-ups are added in another order than those of samples.
      const expected = bucketsOf(device.seriesOf(property, from), from, END, step).map(({ numbers, ...bucket }) => ({
        ...bucket,
        numbers: numbers && { ...numbers, sum: expect.closeTo(numbers.sum, 6) },
      }));
      expect(buckets.map(summaryOf)).toEqual(expected);
      expect((await device.buckets(property, START, from, DAY_MS)).buckets).toEqual([]);
    }
  });

  it('takes the partitions of the retained days alone', async () => {
    const rows = await backend().database.read<{ name: string; days: number[] }>({
      text: `select inhparent::regclass::text as name,
          array_agg(substring(inhrelid::regclass::text from '_d(\\d+)$')::integer - $1::integer order by 1) as days
        from pg_inherits where inhrelid::regclass::text ~ '^(samples|history_[a-z]+)_d\\d+$' group by 1 order by 1`,
      values: [FIRST],
    });
    // Other suites of the worker may have made later ones.
    const own = (days: number[]) => days.filter((day) => day < DAYS + DAYS_AHEAD).sort((a, b) => a - b);
    const partitions = Object.fromEntries(rows.map(({ name, days }) => [name, own(days)]));
    expect(partitions.history_rollups).toEqual([ROLLUP_PARTITION_DAYS]);
    expect(partitions.history_segments?.[0]).toBe(DAYS - SAMPLE_DAYS);
    expect(partitions.history_segments).toHaveLength(SAMPLE_DAYS + DAYS_AHEAD);
  });
});
