import { type Bucket, MAX_STATES } from '../../src/domain/history/bucket.ts';
import {
  IMPORTED_SEQUENCE,
  type Sample,
  type SampleValue,
  type StoredReport,
} from '../../src/domain/history/sample.ts';
import type { JsonObject } from '../../src/domain/values.ts';
import type { RowOutput } from '../../src/machines/outputs.ts';
import { type BucketSeries, readBuckets, readSamples } from '../../src/operations/devices/series-reader.ts';
import { HistoryCompaction } from '../../src/services/history-compaction.ts';
import type { ActorCommit, Store } from '../../src/store/contract.ts';
import { deviceCommit, newId, nextCommit } from './actor-commits.ts';
import type { TestClock } from './clock.ts';

export const DAY = 86_400_000;
export const HOUR = 3_600_000;
export const MINUTE = 60_000;

const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** A device that reports to a store, with all that it has reported. */
export class ReportingDevice {
  readonly id = newId();
  readonly tenantId: string;
  readonly samples: (Sample & { property: string })[] = [];
  readonly #store: Store;
  #commit: ActorCommit;
  #sequence = 0;

  /** `registeredAt`: samples from before it are imported. */
  constructor(store: Store, tenantId = newId(), registeredAt = 1_000) {
    this.#store = store;
    this.tenantId = tenantId;
    this.#commit = deviceCommit({ id: this.id, tenantId, columns: { created_at: registeredAt } });
  }

  async register(): Promise<void> {
    await this.#store.actors.commit([this.#commit]);
  }

  /** One commit with reports. `time`: of the device. */
  async report(at: number, ...reports: { time?: number; values: Record<string, SampleValue> }[]): Promise<void> {
    const reported = reports.map(({ time = at, values }): StoredReport => {
      this.#sequence += 1;
      for (const [property, value] of Object.entries(values))
        this.samples.push({ property, time, at, sequence: this.#sequence, value: Object.is(value, -0) ? 0 : value });
      return [at, time, this.#sequence, values as JsonObject];
    });
    await this.#commitReports(at, reported, []);
  }

  async #commitReports(at: number, reports: readonly StoredReport[], rows: RowOutput[]): Promise<void> {
    const samples = { at, text: JSON.stringify(reports) };
    const commit = nextCommit(this.#commit, { samples, rows, fixedUnchanged: true });
    const { lost } = await this.#store.actors.commit([commit]);
    if (lost.length > 0) throw new Error('the report was not stored');
    this.#commit = commit;
  }

  /** One commit with reports from before the registration. */
  async import(at: number, ...reports: { time: number; values: Record<string, SampleValue> }[]): Promise<void> {
    const imported = reports.map(({ time, values }): StoredReport => {
      for (const [property, value] of Object.entries(values))
        this.samples.push({ property, time, at, sequence: IMPORTED_SEQUENCE, value });
      return [at, time, IMPORTED_SEQUENCE, values as JsonObject];
    });
    await this.#commitReports(at, imported, [{ type: 'import.put', at }]);
  }

  /** A report that loses a version conflict. */
  async reportInConflict(at: number): Promise<void> {
    const commit = nextCommit(this.#commit, {
      ...{ readVersion: this.#commit.version + 5, version: this.#commit.version + 6, fixedUnchanged: true },
      samples: { at, text: JSON.stringify([[at, at, 1, { level: -1 }]]) },
    });
    const { lost } = await this.#store.actors.commit([commit]);
    if (lost.length !== 1) throw new Error('the report was stored');
  }

  async delete(): Promise<void> {
    const columns = { ...this.#commit.columns, revoked: true, deleted: true };
    this.#commit = nextCommit(this.#commit, { columns });
    await this.#store.actors.commit([this.#commit]);
  }

  /** The samples of a property in their order. */
  seriesOf(property: string, from = 0, to = Number.POSITIVE_INFINITY): Sample[] {
    return this.samples
      .filter((one) => one.property === property && one.time >= from && one.time < to)
      .map(({ property: _, ...sample }) => sample)
      .sort((a, b) => a.time - b.time || a.sequence - b.sequence);
  }

  async read(property: string, from: number, to: number): Promise<Sample[]> {
    const { tenantId, id: deviceId } = this;
    const read = await readSamples({ store: this.#store }, { tenantId, deviceId, property, from, to }, 1_000_000);
    if (!read.ok) throw new Error(read.refusal.detail);
    return read.value.samples;
  }

  async buckets(property: string, from: number, to: number, step: number): Promise<BucketSeries & { source: string }> {
    const { tenantId, id: deviceId } = this;
    const read = await readBuckets({ store: this.#store }, { tenantId, deviceId, property, from, to }, step, to);
    if (!read.ok) throw new Error(read.refusal.detail);
    return read.value;
  }
}

export const compactionOf = (store: Store, clock: TestClock): HistoryCompaction =>
  new HistoryCompaction({ store, clock, log: silent, shards: () => null, limits: { maxPauseMs: 0 } });

/** What an interval has, without its first sample's distance. */
export type BucketSummary = Omit<Bucket, 'head'>;

export const summaryOf = ({ head: _, ...bucket }: Bucket): BucketSummary => bucket;

/** The intervals of a series computed one by one from all its samples. */
export function bucketsOf(samples: readonly Sample[], from: number, to: number, step: number): BucketSummary[] {
  const buckets: BucketSummary[] = [];
  for (let start = Math.floor(from / step) * step; start < to; start += step) {
    const end = Math.min(start + step, to);
    const own = samples.filter(({ time }) => time >= start && time < end);
    const numbers = own.map(({ value }) => value).filter((value) => typeof value === 'number');
    const times = new Map<boolean | string, number>();
    for (const [n, { time, value }] of samples.entries()) {
      const lasted = Math.min(samples[n + 1]?.time ?? to, end) - Math.max(time, start);
      if (typeof value !== 'number' && lasted >= 0 && time < end && (time >= start || lasted > 0))
        times.set(value, (times.get(value) ?? 0) + lasted);
    }
    if (own.length === 0 && times.size === 0) continue;
    const sorted = [...times].sort(([a, x], [b, y]) => y - x || (String(a) < String(b) ? -1 : 1));
    const rest = sorted.slice(MAX_STATES).reduce((sum, [, lasted]) => sum + lasted, 0);
    buckets.push({
      ...{ start, count: own.length, last: own.at(-1)?.value ?? null },
      numbers:
        numbers.length === 0
          ? null
          : {
              ...{ count: numbers.length, min: Math.min(...numbers), max: Math.max(...numbers) },
              sum: numbers.reduce((sum, value) => sum + value, 0),
            },
      states: [...sorted.slice(0, MAX_STATES), ...(rest > 0 ? [[null, rest] as [null, number]] : [])],
    });
  }
  return buckets;
}
