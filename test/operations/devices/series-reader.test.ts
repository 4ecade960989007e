import { expect, it } from 'vitest';
import { dayOf } from '../../../src/domain/day.ts';
import type { StoredReport } from '../../../src/domain/history/sample.ts';
import { encodeSegment } from '../../../src/domain/history/segment.ts';
import { readSeriesDays } from '../../../src/operations/devices/series-days.ts';
import {
  readBuckets,
  readManyBuckets,
  readManySamples,
  readSamples,
  type SampleSeries,
} from '../../../src/operations/devices/series-reader.ts';
import type { ReportRow, SeriesRows } from '../../../src/store/contract/history.ts';
import { testClock } from '../../support/clock.ts';
import { bucketsOf, compactionOf, DAY, HOUR, MINUTE, ReportingDevice, summaryOf } from '../../support/history-model.ts';
import { MemoryDatabase } from '../../support/memory-store/database.ts';
import { openMemoryStore } from '../../support/memory-store/store.ts';

const START = Date.UTC(2026, 2, 1);

/** A store whose series are `rows`, and the number of times it was read. */
function storeOf(rows: (from: number, to: number) => Partial<SeriesRows>) {
  const store = openMemoryStore(new MemoryDatabase());
  const read = { statements: 0 };
  const series: typeof store.history.series = async (_tenant, keys, { from, to }) => {
    read.statements += 1;
    return keys.map(() => ({ days: [], before: null, parts: [], tail: [], complete: true, ...rows(from, to) }));
  };
  return { services: { store: { ...store, history: { ...store.history, series, segments: async () => [] } } }, read };
}

const request = { tenantId: 't', deviceId: 'd', property: 'level', from: START, to: START + DAY };

/** How often other work had its turn until `work` was done. */
async function turnsDuring(work: Promise<unknown>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const count = (): void => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  await work.finally(() => {
    isDone = true;
  });
  return turns;
}

it('gives other work its turn while it parses reports that are not compacted', async () => {
  const tail = Array.from({ length: 40_000 }, (_, n) => ({
    version: n + 1,
    text: JSON.stringify([[START + n, START + n, n + 1, { level: n % 10, note: 'x'.repeat(50) }]]),
  }));
  const bytes = tail.reduce((sum, { text }) => sum + text.length, 0);
  const { services } = storeOf(() => ({ tail }));
  const buckets = readBuckets(services, request, MINUTE, request.to);
  expect(await turnsDuring(buckets)).toBeGreaterThan(bytes / (256 * 1024));
  expect(await buckets).toMatchObject({ ok: true, value: { buckets: [{ count: 40_000 }] } });
  const samples = readSamples(services, request, 100_000);
  expect(await turnsDuring(samples)).toBeGreaterThan(bytes / (256 * 1024));
  expect(await samples).toMatchObject({ ok: true, value: { samples: { length: 40_000 } } });
});

it('decodes no more days of samples than an answer needs', async () => {
  const bodies = new Map<number, Uint8Array>();
  for (let day = dayOf(START); day < dayOf(START) + 8; day += 1) {
    const samples = Array.from({ length: 100 }, (_, n) => ({ time: day * DAY + n, at: day * DAY + n, sequence: n }));
    bodies.set(day, await encodeSegment(samples.map((one) => ({ ...one, value: one.sequence }))));
  }
  const { services, read } = storeOf((from, to) => ({
    days: [...bodies].filter(([day]) => day >= from && day <= to).map(([day, body]) => ({ day, part: 1, body })),
  }));
  const result = await readSamples(services, { ...request, to: START + 8 * DAY }, 250);
  expect(result).toMatchObject({ ok: true, value: { samples: { length: 251 } } });
  expect(read.statements).toBe(2);
});

it('reads several series with a statement for each group of days, and what was reported for earlier days once', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const one = new ReportingDevice(store);
  const other = new ReportingDevice(store, one.tenantId);
  for (const device of [one, other]) {
    await device.register();
    for (let day = 0; day < 10; day += 1) await device.report(START + day * DAY + HOUR, { values: { level: day } });
  }
  let statements = 0;
  let rows = 0;
  const series: typeof store.history.series = async (...args) => {
    const all = await store.history.series(...args);
    statements += 1;
    // The first two are of different devices.
    rows += all.slice(0, 2).reduce((sum, { tail }) => sum + tail.length, 0);
    return all;
  };
  const services = { store: { ...store, history: { ...store.history, series } } };
  const pendingAt = (time: number): StoredReport[] => [[time, time, 1, {}, { rssi: time - START }]];
  const keys = [
    ...[one.id, other.id].map((deviceId) => ({ deviceId, property: 'level' })),
    { deviceId: other.id, property: '$telemetry.rssi', pending: pendingAt(START - HOUR) },
    { deviceId: one.id, property: '$telemetry.rssi', pending: pendingAt(START + 4 * DAY) },
  ];
  const range = { tenantId: one.tenantId, from: START, to: START + 10 * DAY };
  const read = await readManySamples(services, { ...range, keys }, 100);
  const levels = Array.from({ length: 10 }, (_, day) => day);
  const valuesOf = ({ samples }: SampleSeries) => samples.map(({ value }) => value);
  expect(read.ok && read.value.map(valuesOf)).toEqual([levels, levels, [], [4 * DAY]]);
  expect(read.ok && read.value.map(({ before }) => before)).toEqual([null, null, -HOUR, null]);
  expect({ statements, rows }).toEqual({ statements: 3, rows: 20 });
});

it('reads nothing of earlier days if the value before the range is not needed', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const device = new ReportingDevice(store);
  await device.register();
  for (let day = 0; day < 10; day += 1) await device.report(START + day * DAY + HOUR, { values: { level: day } });
  const ranges: [from: number, withoutEarlier: boolean][] = [];
  const series: typeof store.history.series = (tenant, keys, range, step) => {
    ranges.push([range.from - dayOf(START), range.withoutEarlier ?? false]);
    return store.history.series(tenant, keys, range, step);
  };
  const services = { store: { ...store, history: { ...store.history, series } } };
  const { id: deviceId, tenantId } = device;
  const range = { tenantId, deviceId, property: 'level', from: START + DAY + 2 * HOUR, to: START + 3 * DAY + 2 * HOUR };
  const withBefore = await readSamples(services, range, 100);
  expect(withBefore).toMatchObject({ value: { samples: [{ value: 2 }, { value: 3 }], before: 1 } });
  const without = await readSamples(services, { ...range, withoutBefore: true }, 100);
  expect(without).toMatchObject({ value: { samples: [{ value: 2 }, { value: 3 }] } });
  expect(ranges).toEqual([
    [1, false],
    [2, true],
    [1, true],
    [2, true],
  ]);
});

it('takes the value before a range from its first days alone, whatever was imported for earlier ones', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const device = new ReportingDevice(store, undefined, START + 9 * DAY);
  const compaction = compactionOf(store, testClock(START + 9 * DAY));
  await device.register();
  const importAt = (time: number, level: number) => device.report(START + 9 * DAY, { time, values: { level } });
  await importAt(START + DAY, 1);
  await importAt(START + 3 * DAY, 1);
  compaction.recordImport(device.id, device.tenantId);
  await compaction.compactBusy();
  await importAt(START, 0);
  const { id: deviceId, tenantId } = device;
  const range = { tenantId, deviceId, property: 'level', from: START + 2 * DAY, to: START + 4 * DAY };
  expect(await readSamples({ store }, range, 100)).toMatchObject({ value: { samples: [{ value: 1 }], before: 1 } });
});

it('keeps no more samples of a day than an answer has, and does not divide those with the same time', async () => {
  const samples = Array.from({ length: 10_000 }, (_, n) => {
    const time = START + Math.floor(n / 3);
    return { time, at: time, sequence: n, value: n };
  });
  const body = await encodeSegment(samples);
  const { services } = storeOf(() => ({ days: [{ day: dayOf(START), part: 1, body }] }));
  const { tenantId, from, to, ...key } = request;
  const lengthsOf = async (limit: number) => {
    const read = await readManySamples(services, { tenantId, from, to, keys: [key, key] }, limit);
    return read.ok && read.value.map(({ samples: kept }) => kept.length);
  };
  expect(await lengthsOf(100)).toEqual([102, 102]);
  expect(await lengthsOf(1)).toEqual([3, 3]);
  expect(await lengthsOf(10_000)).toEqual([10_000, 10_000]);
});

it('reads series in parts whose segments fit in memory, and refuses one alone', async () => {
  const body = await encodeSegment([{ time: START, at: START, sequence: 1, value: 1 }]);
  const store = openMemoryStore(new MemoryDatabase());
  const sizes: number[] = [];
  const series: typeof store.history.series = async (_tenant, keys) => {
    sizes.push(keys.length);
    const complete = keys.length <= 2 && !keys.some(({ property }) => property === 'large');
    const days = complete ? [{ day: dayOf(START), part: 1, body }] : [];
    return keys.map(() => ({ days, before: null, parts: [], tail: [], complete }));
  };
  const services = { store: { ...store, history: { ...store.history, series } } };
  const { tenantId, from, to } = request;
  const read = async (...properties: string[]) => {
    const keys = properties.map((property) => ({ deviceId: 'd', property }));
    sizes.length = 0;
    const [samples, buckets] = [
      await readManySamples(services, { tenantId, from, to, keys }, 10),
      await readManyBuckets(services, { tenantId, from, to, keys }, 30_000, to),
    ];
    return { samples: samples.ok && samples.value.length, buckets: buckets.ok && buckets.value.series.length, sizes };
  };
  const halves = [5, 3, 2, 1, 2];
  expect(await read('a', 'b', 'c', 'd', 'e')).toEqual({ samples: 5, buckets: 5, sizes: [...halves, ...halves] });
  expect(await read('large', 'b')).toEqual({ samples: false, buckets: false, sizes: [2, 1, 2, 1] });
});

it('takes the state at the start of a range from an earlier day, wherever its samples are stored', async () => {
  const store = openMemoryStore(new MemoryDatabase());
  const clock = testClock(START);
  const device = new ReportingDevice(store);
  await device.register();
  const from = START + 2 * DAY;
  const expectState = async (state: string) => {
    for (const step of [30_000, 90_000, MINUTE, 15 * MINUTE]) {
      const to = from + HOUR;
      const { buckets } = await device.buckets('door', from, to, step);
      expect(buckets.map(summaryOf), `${step}`).toEqual(bucketsOf(device.seriesOf('door'), from, to, step));
      expect(buckets[0]?.states, `${step}`).toEqual([[state, step]]);
    }
    const { id: deviceId, tenantId } = device;
    const read = await readSamples({ store }, { deviceId, tenantId, property: 'door', from, to: from + HOUR }, 10);
    expect(read).toMatchObject({ ok: true, value: { samples: [], before: state } });
  };
  await device.report(START + HOUR, { values: { door: 'closed' } });
  await expectState('closed');
  clock.set(START + DAY + HOUR);
  await compactionOf(store, clock).sweep();
  await expectState('closed');
  await device.report(START + DAY + 15 * HOUR, { values: { door: 'open' } });
  await expectState('open');
  // A late sample of a merged day is not the last one.
  await device.report(START + DAY + 16 * HOUR, { time: START + 2 * HOUR, values: { door: 'ajar' } });
  await expectState('open');
  clock.set(from + HOUR);
  await compactionOf(store, clock).sweep();
  await expectState('open');
});

it('parses the reports of a device once, when the first of its series is read', async () => {
  const parsed: string[] = [];
  const tailOf = (device: string): ReportRow[] => [
    {
      version: 1,
      get text() {
        parsed.push(device);
        return JSON.stringify([[START, START, 1, { level: device, mode: 'on' }]]);
      },
    },
  ];
  const tails = new Map(['one', 'other'].map((device) => [device, tailOf(device)]));
  const { services } = storeOf(() => ({}));
  services.store.history.series = async (_tenant, keys) =>
    keys.map(({ deviceId }) => ({
      days: [],
      before: null,
      parts: [],
      tail: tails.get(deviceId) ?? [],
      complete: true,
    }));
  const keys = [
    ...[
      { deviceId: 'one', property: 'level' },
      { deviceId: 'one', property: '$not.telemetry' },
    ],
    ...[
      { deviceId: 'other', property: 'level' },
      { deviceId: 'one', property: 'mode' },
    ],
  ];
  const values: unknown[] = [];
  const parsedAt: string[] = [];
  const day = dayOf(START);
  for await (const read of readSeriesDays(services, { tenantId: 't', keys }, { from: day, to: day }, null)) {
    const samples = read.ok ? await read.value.samplesOf(day) : [];
    values.push(samples.map(({ value }) => value));
    parsedAt.push(parsed.join());
  }
  expect(values).toEqual([['one'], [], ['other'], ['on']]);
  expect(parsedAt).toEqual(['one', 'one', 'one,other', 'one,other']);
});
