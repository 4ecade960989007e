import { beforeEach, expect, it } from 'vitest';
import { dayOf } from '../../../src/domain/day.ts';
import { MAX_DAY_PROPERTIES, MAX_DAY_SAMPLES } from '../../../src/domain/history/report-collector.ts';
import { encodeSegment } from '../../../src/domain/history/segment.ts';
import { readSamples } from '../../../src/operations/devices/series-reader.ts';
import { MAX_DEVICE_SKEW_MS, MAX_SERIES_BYTES } from '../../../src/store/contract/history.ts';
import { newId } from '../../support/actor-commits.ts';
import { type TestClock, testClock } from '../../support/clock.ts';
import { bucketsOf, compactionOf, DAY, HOUR, MINUTE, ReportingDevice, summaryOf } from '../../support/history-model.ts';
import { eachStore } from '../../support/store.ts';

const START = Date.UTC(2026, 2, 1);

eachStore('history of devices', (backend) => {
  let clock: TestClock;
  let device: ReportingDevice;
  const store = () => backend().store;
  beforeEach(async () => {
    clock = testClock(START);
    device = new ReportingDevice(store());
    await device.register();
  });
  const sweep = () => compactionOf(store(), clock).sweep();

  /** A report a minute, with two leaves. */
  async function reportFrom(from: number, count: number): Promise<void> {
    for (let n = 0; n < count; n += 1) {
      const at = from + n * MINUTE;
      await device.report(at, { values: { level: 20 + (n % 7) / 10, on: n % 3 === 0 } });
    }
  }
  const expectAll = async (to: number) => {
    for (const property of ['level', 'on']) {
      expect(await device.read(property, START, to)).toEqual(device.seriesOf(property));
      const hours = [START, START + DAY - HOUR, START + DAY].flatMap((from) =>
        [30_000, MINUTE].map((step) => ({ from, end: from + HOUR, step })),
      );
      const wholes = [7 * MINUTE, 15 * MINUTE, HOUR, DAY].map((step) => ({ from: START, end: to, step }));
      for (const { from, end, step } of [...hours, ...wholes]) {
        const { buckets } = await device.buckets(property, from, end, step);
        expect(buckets.map(summaryOf), `${property} ${step} ${from}`).toEqual(
          bucketsOf(device.seriesOf(property), from, end, step),
        );
      }
    }
  };

  it('reads what was imported as the value before a range that ends before the import', async () => {
    const registeredAt = START + 10 * DAY;
    const imported = new ReportingDevice(store(), undefined, registeredAt);
    await imported.register();
    await imported.report(registeredAt + 3 * DAY, { values: { level: 9 } });
    const from = registeredAt + DAY;
    const read = async () => {
      const { tenantId, id: deviceId } = imported;
      const request = { tenantId, deviceId, property: 'level', from, to: from + DAY };
      const result = await readSamples({ store: store() }, request, 10);
      return result.ok && result.value;
    };
    expect(await read()).toEqual({ samples: [], before: null });
    clock.set(registeredAt + 4 * DAY);
    await imported.import(clock.now(), { time: START + HOUR, values: { level: 7 } });
    expect(await read()).toEqual({ samples: [], before: 7 });
    await imported.import(clock.now() + DAY, { time: START + 2 * HOUR, values: { level: 8 } });
    expect(await read()).toEqual({ samples: [], before: 8 });
    const compaction = compactionOf(store(), clock);
    compaction.recordImport(imported.id, imported.tenantId);
    await compaction.compactBusy();
    expect(await read()).toEqual({ samples: [], before: 8 });
  });

  it('keeps imported samples of a day that has expired until its roll-ups are made', async () => {
    const day = dayOf(START) - 20;
    device = new ReportingDevice(store(), undefined, START);
    await device.register();
    await device.import(START, { time: day * DAY + HOUR, values: { level: 7 } });
    const { id: deviceId, tenantId } = device;
    const compaction = compactionOf(store(), clock);
    const drop = (today: number) =>
      store().history.dropPartitions({ today, samplesFrom: today - 7, rollupsFrom: today - 730 }, today * DAY);
    // The process ends after it has compacted the import.
    const { version, rows } = await store().history.tail(deviceId, 500, 1_000_000);
    const body = await encodeSegment([...device.seriesOf('level')]);
    const compacted = { deviceId, tenantId, from: version, to: rows.at(-1)?.version ?? 0 };
    await store().history.compact({ ...compacted, segments: [{ property: 'level', day, samples: 1, body }] });
    expect((await compaction.progress()).openFrom).toBe(dayOf(START));
    await drop(dayOf(START));
    const read = () => device.buckets('level', day * DAY, (day + 1) * DAY, DAY);
    expect((await read()).buckets).toMatchObject([{ count: 1, last: 7 }]);
    await compaction.sweep();
    expect(compaction.merged).toBe(1);
    await drop(dayOf(START));
    expect((await read()).buckets).toMatchObject([{ count: 1, last: 7 }]);
  });

  it('drops samples that were imported and could not be rolled up as late as those of reports', async () => {
    const day = dayOf(START) - 20;
    device = new ReportingDevice(store(), undefined, START);
    await device.register();
    const { id: deviceId, tenantId } = device;
    await device.import(START, { time: day * DAY + HOUR, values: { level: 7 } });
    const body = await encodeSegment([...device.seriesOf('level')]);
    const { rows } = await store().history.tail(deviceId, 500, 1_000_000);
    const segments = [{ property: 'level', day, samples: 1, body }];
    await store().history.compact({ deviceId, tenantId, from: 0, to: rows.at(-1)?.version ?? 0, segments });
    const parts = async (today: number) => {
      await store().history.dropPartitions({ today, samplesFrom: today - 7, rollupsFrom: 0 }, today * DAY);
      const range = { from: day, to: day };
      return (await store().history.series(tenantId, [{ deviceId, property: 'level' }], range, null))[0]?.parts.length;
    };
    expect(await parts(dayOf(START) + 9)).toBe(1);
    expect(await parts(dayOf(START) + 10)).toBe(0);
  });

  it('drops expired samples of reports of a device that has imported earlier ones', async () => {
    const { id: deviceId, tenantId } = device;
    const day = dayOf(START);
    await device.report(START + HOUR, { values: { level: 7 } });
    const body = await encodeSegment([...device.seriesOf('level')]);
    const { rows } = await store().history.tail(deviceId, 500, 1_000_000);
    const segments = [{ property: 'level', day, samples: 1, body }];
    await store().history.compact({ deviceId, tenantId, from: 0, to: rows.at(-1)?.version ?? 0, segments });
    await device.import(START + 20 * DAY, { time: 1, values: { level: 6 } });
    const today = day + 20;
    await store().history.dropPartitions({ today, samplesFrom: today - 7, rollupsFrom: 0 }, today * DAY);
    const range = { from: day, to: day };
    const [series] = await store().history.series(tenantId, [{ deviceId, property: 'level' }], range, null);
    expect(series?.parts).toEqual([]);
  });

  it('reads large segments of one series alone, and not those of several', async () => {
    const { id: deviceId, tenantId } = device;
    const body = Buffer.alloc(MAX_SERIES_BYTES / 2 + 1, 'x');
    const segments = ['one', 'other'].map((property) => ({ property, day: dayOf(START), samples: 1, body }));
    expect(await store().history.compact({ deviceId, tenantId, from: 0, to: 1, segments })).toBe(true);
    const read = async (...properties: string[]) => {
      const keys = properties.map((property) => ({ deviceId, property }));
      const all = await store().history.series(tenantId, keys, { from: dayOf(START), to: dayOf(START) }, null);
      return all.map(({ complete, parts }) => [complete, parts.map((part) => part.body.length)]);
    };
    expect(await read('one', 'other')).toEqual(Array(2).fill([false, []]));
    expect(await read('other')).toEqual([[true, [body.length]]]);
    expect(await read('other', 'third')).toEqual([
      [true, [body.length]],
      [true, []],
    ]);
    // They cannot be merged.
    await store().history.deleteDevice(deviceId, tenantId, 10, () => false);
  });

  it('is readable as soon as it is stored, after it was compacted, and after its day was merged', async () => {
    await reportFrom(START, 40);
    const to = START + 2 * DAY;
    await expectAll(to);
    await reportFrom(START + DAY - 5 * MINUTE, 10);
    await expectAll(to);
    clock.set(START + DAY + HOUR);
    await sweep();
    expect((await store().history.tail(device.id, 10, 1_000)).rows).toEqual([]);
    const { series } = await store().history.openSeries(device.id, dayOf(START) + 9);
    const samples = device.seriesOf('level').filter(({ time }) => time >= START + DAY).length;
    expect(series).toMatchObject(['level', 'on'].map((property) => ({ property, samples })));
    await expectAll(to);
    clock.set(START + 2 * DAY + HOUR);
    await sweep();
    expect((await store().history.openSeries(device.id, dayOf(START) + 9)).series).toEqual([]);
    await expectAll(to);
    expect((await device.buckets('level', START, to, 7 * MINUTE)).source).toBe('1m');
    expect((await device.buckets('level', START, to, DAY)).source).toBe('1d');
  });

  it('has each sample once, wherever compaction ends', async () => {
    await reportFrom(START, 30);
    const { version, rows } = await store().history.tail(device.id, 10, 100_000);
    const compaction = { deviceId: device.id, tenantId: device.tenantId, segments: [] };
    const to = rows.at(-1)?.version ?? 0;
    expect(rows).toHaveLength(10);
    expect(await store().history.compact({ ...compaction, from: version + 1, to })).toBe(false);
    clock.set(START + DAY + HOUR);
    const one = compactionOf(store(), clock);
    const other = compactionOf(store(), clock);
    await Promise.all([one.sweep(), other.sweep()]);
    expect([one.failures, other.failures]).toEqual([0, 0]);
    await expectAll(START + DAY);
    await Promise.all([one.sweep(), other.sweep()]);
    await expectAll(START + DAY);
  });

  it('adds a late sample to a merged day', async () => {
    await reportFrom(START, 20);
    clock.set(START + DAY + HOUR);
    await sweep();
    // As after a step of the clock: otherwise both times differ by minutes at most.
    await device.report(clock.now(), { time: START + 10 * MINUTE + 1, values: { level: 99, on: true } });
    clock.set(START + 2 * DAY + HOUR);
    await sweep();
    await expectAll(START + DAY);
    const { buckets } = await device.buckets('level', START, START + DAY, DAY);
    expect(buckets[0]).toMatchObject({ count: 21, numbers: { max: 99 } });
  });

  it('keeps the roll-ups of a day with a late sample after its samples have expired', async () => {
    const day = dayOf(START);
    await reportFrom(START, 20);
    clock.set(START + DAY + HOUR);
    await sweep();
    await store().history.dropPartitions({ today: day + 3, samplesFrom: day + 2, rollupsFrom: 0 }, START + 2 * DAY);
    await device.report(START + 3 * DAY, { time: START + HOUR, values: { level: 99, on: true } });
    clock.set(START + 4 * DAY + HOUR);
    const compaction = compactionOf(store(), clock);
    await compaction.sweep();
    expect([compaction.dropped, compaction.failures]).toEqual([{ limit: 0, bytes: 0, expired: 2 }, 0]);
    expect((await store().history.openSeries(device.id, day + 9)).series).toEqual([]);
    for (const property of ['level', 'on']) {
      const { buckets } = await device.buckets(property, START, START + DAY, DAY);
      expect(buckets[0]?.count).toBe(20);
    }
    expect(await device.read('level', START, START + DAY)).toEqual([]);
  });

  it('counts the samples of merged days for the limits of a day', async () => {
    const day = dayOf(START);
    const { id: deviceId, tenantId } = device;
    const body = new Uint8Array([1]);
    const rollups = { '1m': body, '15m': body, '1h': body, '1d': body };
    const merge = (property: string, samples: number) =>
      store().history.merge(deviceId, tenantId, [{ property, day, part: 1, samples, body, rollups }]);
    for (let n = 1; n < MAX_DAY_PROPERTIES; n += 1) await merge(`p${n}`, 1);
    await merge('full', MAX_DAY_SAMPLES);
    await device.report(START + DAY, { time: START + 5, values: { p1: 1, p2: 2, full: 3, added: 4 } });
    const compaction = compactionOf(store(), clock);
    for (let n = 0; n < 500; n += 1) compaction.recordReport(deviceId, tenantId, 60);
    await compaction.compactBusy();
    expect([compaction.dropped, compaction.failures]).toEqual([{ limit: 2, bytes: 0, expired: 0 }, 0]);
    const counts = await store().history.sampleCounts(deviceId, [day]);
    expect(counts).toHaveLength(MAX_DAY_PROPERTIES);
    expect(counts.filter(({ samples }) => samples > 1)).toEqual(
      expect.arrayContaining([
        { property: 'p1', day, samples: 2 },
        { property: 'p2', day, samples: 2 },
        { property: 'full', day, samples: MAX_DAY_SAMPLES },
      ]),
    );
    expect(await store().history.sampleCounts(deviceId, [day + 1])).toEqual([]);
  });

  it('has no report of a commit with a version conflict', async () => {
    await reportFrom(START, 2);
    await device.reportInConflict(START + 5 * MINUTE);
    expect(await device.read('level', START, START + DAY)).toHaveLength(2);
  });

  it('belongs to one tenant and one device', async () => {
    await reportFrom(START, 3);
    const range = { from: dayOf(START), to: dayOf(START) };
    const read = async (tenantId: string, deviceId: string) =>
      (await store().history.series(tenantId, [{ deviceId, property: 'level' }], range, null))[0]?.tail;
    expect(await read(device.tenantId, device.id)).toHaveLength(3);
    expect(await read(device.tenantId, newId())).toEqual([]);
  });

  it('is deleted with its device', async () => {
    await reportFrom(START, 3);
    clock.set(START + DAY + HOUR);
    await sweep();
    await reportFrom(clock.now(), 2);
    await device.delete();
    await sweep();
    expect((await store().history.tail(device.id, 10, 1_000)).version).toBe(0);
    expect(await device.read('level', START, START + 3 * DAY)).toEqual([]);
    expect(await device.buckets('level', START, START + 3 * DAY, DAY)).toEqual({
      source: '1d',
      buckets: [],
      before: null,
    });
    const { backlogs } = await store().history.backlogs('00000000-0000-0000-0000-000000000000', 1_000, 1);
    expect(backlogs.filter(({ deviceId }) => deviceId === device.id)).toEqual([]);
  });

  it('is deleted in statements of a few rows, and continued after a pause', async () => {
    await reportFrom(START, 7);
    clock.set(START + DAY + HOUR);
    await sweep();
    await reportFrom(clock.now(), 7);
    const other = new ReportingDevice(store(), device.tenantId);
    await other.register();
    await other.report(START, { values: { level: 1 } });
    const { id, tenantId } = device;
    await store().history.deleteDevice(id, tenantId, 2, () => true);
    expect(await device.read('level', START, START + 3 * DAY)).toHaveLength(14);
    await store().history.deleteDevice(id, tenantId, 2, () => false);
    await store().history.deleteDevice(id, tenantId, 2, () => false);
    expect(await store().history.tail(id, 10, 1_000)).toEqual({ version: 0, rows: [] });
    expect(await device.read('level', START, START + 3 * DAY)).toEqual([]);
    expect((await device.buckets('level', START, START + 3 * DAY, DAY)).buckets).toEqual([]);
    expect(await other.read('level', START, START + DAY)).toHaveLength(1);
  });

  it('keeps the partition of a day with a report that was stored after the others were compacted', async () => {
    const day = dayOf(START);
    await store().history.makePartitions(day);
    await reportFrom(START, 5);
    clock.set(START + DAY + HOUR);
    await sweep();
    await device.report(START + DAY - 500, { values: { level: 7, on: true } });
    const drop = () =>
      store().history.dropPartitions({ today: day + 1, samplesFrom: day - 7, rollupsFrom: 0 }, clock.now());
    await drop();
    await expectAll(START + 2 * DAY);
    await sweep();
    await drop();
    await expectAll(START + 2 * DAY);
    expect((await store().history.tail(device.id, 10, 10_000)).rows).toEqual([]);
  });

  it('expires by days: samples first, then roll-ups; what is not compacted stays', async () => {
    const day = dayOf(START);
    await store().history.makePartitions(day);
    expect(await store().history.makePartitions(day)).toBe(0);
    await reportFrom(START, 5);
    clock.set(START + DAY + HOUR);
    await sweep();
    await reportFrom(clock.now(), 5);
    const { compactedBefore: before } = await compactionOf(store(), clock).progress();
    expect(before).toBe(START + DAY + HOUR - MAX_DEVICE_SKEW_MS);
    await store().history.dropPartitions({ today: day + 3, samplesFrom: day, rollupsFrom: day }, before);
    await expectAll(START + 2 * DAY);
    clock.set(START + 2 * DAY + HOUR);
    await sweep();
    await store().history.dropPartitions({ today: day + 3, samplesFrom: day + 1, rollupsFrom: day }, clock.now());
    expect(await device.read('level', START, START + DAY)).toEqual([]);
    expect(await device.read('level', START + DAY, START + 2 * DAY)).toHaveLength(5);
    expect((await device.buckets('level', START, START + 2 * DAY, DAY)).buckets.map(({ count }) => count)).toEqual([
      5, 5,
    ]);
    await store().history.dropPartitions(
      { today: day + 60, samplesFrom: day + 60, rollupsFrom: day + 60 },
      clock.now(),
    );
    expect((await device.buckets('level', START, START + 2 * DAY, DAY)).buckets).toEqual([]);
  });
});
