import { beforeEach, describe, expect, it } from 'vitest';
import { shardOf } from '../../src/domain/shards.ts';
import type { CompactionLimits } from '../../src/services/compaction-limits.ts';
import { HistoryCompaction } from '../../src/services/history-compaction.ts';
import { MAX_TAIL_BYTES } from '../../src/store/contract/history.ts';
import { CommitUnknown, type Store, StoreUnavailable } from '../../src/store/contract.ts';
import { newId } from '../support/actor-commits.ts';
import { type TestClock, testClock } from '../support/clock.ts';
import { compactionOf, DAY, HOUR, ReportingDevice } from '../support/history-model.ts';
import { MemoryDatabase } from '../support/memory-store/database.ts';
import { openMemoryStore } from '../support/memory-store/store.ts';

const START = Date.UTC(2026, 2, 1);
const DUE_REPORTS = 500;
const silent = { debug() {}, info() {}, warn() {}, error() {} };

describe('history compaction', () => {
  let store: Store;
  let clock: TestClock;
  beforeEach(() => {
    store = openMemoryStore(new MemoryDatabase());
    clock = testClock(START);
  });

  async function reportingDevice(tenantId = newId(), at = START): Promise<ReportingDevice> {
    const device = new ReportingDevice(store, tenantId);
    await device.register();
    await device.report(at, { values: { level: 1 } });
    return device;
  }
  const isCompacted = async ({ id }: ReportingDevice) => (await store.history.tail(id, 1, 1)).rows.length === 0;
  function record(compaction: HistoryCompaction, { id, tenantId }: ReportingDevice, count = DUE_REPORTS): void {
    for (let n = 0; n < count; n += 1) compaction.recordReport(id, tenantId, 10);
  }

  describe('of reports that are few and large', () => {
    const KB = 1024;
    let device: ReportingDevice;
    let compaction: HistoryCompaction;
    beforeEach(async () => {
      clock.set(START + HOUR);
      device = await reportingDevice(newId(), START + HOUR);
      compaction = new HistoryCompaction({ store, clock, log: silent, shards: () => null });
    });

    it('is due before they are too large to be read', async () => {
      for (let n = 0; n < 34; n += 1) compaction.recordReport(device.id, device.tenantId, 30 * KB);
      await compaction.compactBusy();
      expect(await isCompacted(device)).toBe(false);
      compaction.recordReport(device.id, device.tenantId, 30 * KB);
      await compaction.compactBusy();
      expect(await isCompacted(device)).toBe(true);
    });

    it('counts them for a day, unless they are less than the compaction reads at once', async () => {
      const small = await reportingDevice(newId(), START + HOUR);
      for (let hour = 0; hour < 20; hour += 1) {
        compaction.recordReport(device.id, device.tenantId, 60 * KB);
        compaction.recordReport(small.id, small.tenantId, 40 * KB);
        await compaction.compactBusy();
        await compaction.sweep();
        clock.advance(HOUR);
      }
      expect([await isCompacted(device), await isCompacted(small)]).toEqual([true, false]);
      expect(24 * 40 * KB).toBeLessThan(MAX_TAIL_BYTES);
    });
  });

  describe('of a shard that has moved', () => {
    let moved: ReportingDevice;
    let own: ReportingDevice;
    let compaction: HistoryCompaction;
    let shards: number[] | null;
    let backlogsRead: () => void;
    beforeEach(async () => {
      // In the order of ids, so that the moved device is first.
      const inShard = (shard: string) => reportingDevice(newId().replace(/..$/, shard));
      const devices = [await inShard('01'), await inShard('02')].sort((a, b) => (a.id < b.id ? -1 : 1));
      [moved, own] = devices as [ReportingDevice, ReportingDevice];
      shards = null;
      backlogsRead = () => {};
      const history: Store['history'] = {
        ...store.history,
        async backlogs(...values) {
          const page = await store.history.backlogs(...values);
          backlogsRead();
          return page;
        },
      };
      compaction = new HistoryCompaction({ store: { history }, clock, log: silent, shards: () => shards });
    });
    const handOver = () => {
      shards = [shardOf(own.tenantId)];
    };

    it('skips its busy devices and forgets them', async () => {
      for (const device of [moved, own]) record(compaction, device);
      handOver();
      await compaction.compactBusy();
      expect([await isCompacted(moved), await isCompacted(own)]).toEqual([false, true]);
      expect(compaction.sizes()).toEqual({ history_devices_compacting: 0, history_reporting_devices: 0 });
    });

    it('skips the devices of a page that was read before', async () => {
      clock.set(START + DAY + HOUR);
      backlogsRead = handOver;
      await compaction.sweep();
      expect([await isCompacted(moved), await isCompacted(own)]).toEqual([false, true]);
    });
  });

  describe('of a complete day', () => {
    const PROPERTIES = 20;
    const names = Array.from({ length: PROPERTIES }, (_, n) => `p${n}`);
    let device: ReportingDevice;
    let calls: { segments: number[]; merge: number[] };
    let history: Store['history'];
    beforeEach(async () => {
      device = new ReportingDevice(store);
      await device.register();
      for (let n = 0; n < 5; n += 1)
        await device.report(START + n, { values: Object.fromEntries(names.map((name, p) => [name, n * p])) });
      clock.set(START + DAY + HOUR);
      calls = { segments: [], merge: [] };
      history = {
        ...store.history,
        segments(...values) {
          calls.segments.push(values[3].length);
          return store.history.segments(...values);
        },
        merge(...values) {
          calls.merge.push(values[2].length);
          return store.history.merge(...values);
        },
      };
    });
    const compactionWith = (limits: Partial<CompactionLimits>) =>
      new HistoryCompaction({ store: { history }, clock, log: silent, shards: () => null, limits });
    const expectAll = async () => {
      for (const name of names) {
        const { source, buckets } = await device.buckets(name, START, START + DAY, DAY);
        expect([source, buckets[0]?.count]).toEqual(['1d', 5]);
        expect(await device.read(name, START, START + DAY)).toEqual(device.seriesOf(name));
      }
    };

    it('reads and writes its properties in one statement each', async () => {
      const compaction = compactionWith({});
      await compaction.sweep();
      expect(calls).toEqual({ segments: [PROPERTIES], merge: [PROPERTIES] });
      expect([compaction.merged, compaction.failures]).toEqual([PROPERTIES, 0]);
      await expectAll();
      expect((await store.history.openSeries(device.id, 1e6)).series).toEqual([]);
    });

    it('limits the bytes of a statement, and continues with the rest after the process stopped', async () => {
      const { series } = await openAfter(compactionWith({ mergeBytes: 0, maxPauseMs: 0 }));
      const mergeBytes = 2 * Math.max(...series.map(({ bytes }) => bytes));
      const stopped = compactionWith({ mergeBytes, maxPauseMs: 0 });
      const { merge } = history;
      history.merge = (...values) => {
        stopped.stop();
        return merge(...values);
      };
      await stopped.sweep();
      const [first = 0] = calls.merge;
      expect(calls.merge).toHaveLength(1);
      expect(first).toBeGreaterThanOrEqual(2);
      expect(first).toBeLessThan(PROPERTIES);
      history.merge = merge;
      await compactionWith({ mergeBytes, maxPauseMs: 0 }).sweep();
      expect(calls.merge.reduce((sum, count) => sum + count)).toBe(PROPERTIES);
      expect(calls.segments).toEqual(calls.merge);
      await expectAll();
    });

    it('limits the samples of a statement, which may have few bytes', async () => {
      await compactionWith({ mergeSamples: 10, maxPauseMs: 0 }).sweep();
      expect(calls.merge).toEqual(Array.from({ length: PROPERTIES / 2 }, () => 2));
      await expectAll();
      calls.merge = [];
      await device.report(clock.now(), { time: START + 9, values: { p0: 1, p1: 1, p2: 1 } });
      clock.advance(DAY);
      await compactionWith({ mergeSamples: 12, maxPauseMs: 0 }).sweep();
      expect(calls.merge).toEqual([2, 1]);
    });

    it('does not delay the compaction of other devices', async () => {
      const other = await reportingDevice();
      const compaction = compactionWith({ maxPauseMs: 0 });
      const { merge } = history;
      let wasCompacted = false;
      history.merge = async (...values) => {
        for (const one of [device, other]) record(compaction, one);
        await compaction.compactBusy();
        wasCompacted = await isCompacted(other);
        return merge(...values);
      };
      await compaction.sweep();
      expect([wasCompacted, compaction.sizes().history_reporting_devices]).toEqual([true, 1]);
      await expectAll();
    });

    /** Compacts the reports without merging them. */
    async function openAfter(compaction: HistoryCompaction) {
      record(compaction, device);
      await compaction.compactBusy();
      return store.history.openSeries(device.id, 1e6);
    }

    it('is compacted by one task at a time', async () => {
      let running = 0;
      let most = 0;
      const { tail } = history;
      history.tail = async (...values) => {
        running += 1;
        most = Math.max(most, running);
        const read = await tail(...values);
        running -= 1;
        return read;
      };
      const compaction = compactionWith({});
      record(compaction, device);
      const tasks = [compaction.sweep(), compaction.compactBusy()];
      expect(compaction.sizes().history_devices_compacting).toBe(1);
      await Promise.all(tasks);
      expect([most, compaction.failures, compaction.sweepingMs()]).toEqual([1, 0, 0]);
      await expectAll();
    });
  });

  it.each([
    ['the store was not available', () => new StoreUnavailable('connection lost')],
    ['the outcome is unknown', () => new CommitUnknown('connection lost')],
  ])('compacts a device again for which %s', async (_, fault) => {
    const devices = [await reportingDevice(), await reportingDevice()] as const;
    let isAvailable = false;
    const history: Store['history'] = {
      ...store.history,
      compact(step) {
        if (!isAvailable && step.deviceId === devices[0].id) throw fault();
        return store.history.compact(step);
      },
    };
    const compaction = new HistoryCompaction({ store: { history }, clock, log: silent, shards: () => null });
    for (const device of devices) record(compaction, device);
    await expect(compaction.compactBusy()).rejects.toThrow('connection lost');
    await expect(compaction.compactBusy()).rejects.toThrow('connection lost');
    expect(await isCompacted(devices[1])).toBe(true);
    isAvailable = true;
    await compaction.compactBusy();
    expect(await isCompacted(devices[0])).toBe(true);
    expect(compaction.failures).toBe(0);
  });

  describe('of a device with large reports', () => {
    /** Text of 3 KB a report. */
    const values = Object.fromEntries(Array.from({ length: 48 }, (_, n) => [`property${n}`, 'x'.repeat(50)]));
    const reportLarge = async (device: ReportingDevice, count: number) => {
      for (let n = 0; n < count; n += 1) await device.report(START + n, { values: { ...values, n } });
    };

    it('compacts all of them', async () => {
      const device = await reportingDevice();
      await reportLarge(device, 900);
      const compaction = compactionOf(store, clock);
      record(compaction, device);
      await compaction.compactBusy();
      expect(await isCompacted(device)).toBe(true);
      expect(await device.read('n', START, START + DAY)).toHaveLength(900);
    });

    it('stops after the current step when the process stops', async () => {
      const device = await reportingDevice();
      await reportLarge(device, 900);
      const history: Store['history'] = {
        ...store.history,
        compact(step) {
          compaction.stop();
          return store.history.compact(step);
        },
      };
      const compaction = new HistoryCompaction({ store: { history }, clock, log: silent, shards: () => null });
      record(compaction, device);
      await compaction.compactBusy();
      const { version, rows } = await store.history.tail(device.id, 1, 1);
      expect(version).toBeGreaterThan(0);
      expect(rows).toHaveLength(1);
    });

    it('stays due if some remain after 64 steps', async () => {
      const device = await reportingDevice();
      const text = `[]${' '.repeat(1024 * 1024)}`;
      let version = 0;
      const history: Store['history'] = {
        ...store.history,
        async tail(id) {
          const rows = version < 70 ? [{ version: version + 1, text }] : [];
          return { ...(await store.history.tail(id, 1, 1)), version, rows };
        },
        async compact({ to }) {
          version = to;
          return true;
        },
      };
      const compaction = new HistoryCompaction({ store: { history }, clock, log: silent, shards: () => null });
      record(compaction, device);
      await compaction.compactBusy();
      expect(version).toBe(64);
      await compaction.compactBusy();
      expect(version).toBe(70);
    });
  });
});
