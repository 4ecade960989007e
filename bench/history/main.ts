// How many bytes does a sample take before and after its day is rolled up, and how long do reads and retention take?

import pg from 'pg';
import { readConfig } from '../../src/config.ts';
import { DAY_MS, dayOf } from '../../src/domain/day.ts';
import type { StoredReport } from '../../src/domain/history/sample.ts';
import { readBuckets, readSamples } from '../../src/operations/devices/series-reader.ts';
import { HistoryCompaction } from '../../src/services/history-compaction.ts';
import { openStore } from '../../src/store/open.ts';
import { deviceCommit, nextCommit } from '../../test/support/actor-commits.ts';
import { testClock } from '../../test/support/clock.ts';
import { formatLatencies, percentile } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment } from '../support/service.ts';

/*
 * Devices report 20 properties a minute: 12 numbers that change slowly, 4 counters, 2 booleans and 2 texts, at times that
 * vary by some milliseconds. Reports are committed as the runtime commits them, by the store of the service.
 */

const MINUTE = 60_000;
const PROPERTIES = 20;
const READS = 200;
const WEEK_DAYS = 7;
const BYTES_BEFORE = 40;
const BYTES_AFTER = 12;
const WEEK_P99_MS = 20;
const YEAR_P99_MS = 50;
const DROP_MS = 50;

const options = readOptions();
const scale = options.short
  ? { devices: 4, reports: 60, yearDays: 10, reads: 10 }
  : { devices: 40, reports: 1_440, yearDays: 365, reads: READS };

printMachine();
const cluster = await startCluster(options);
console.log(await cluster.describe());
const url = await cluster.database('history');
const database = new pg.Client(url);
await database.connect();
const store = await openStore(readConfig(makeDeployment(url).env));

const START = Date.UTC(2026, 0, 5);
const clock = testClock(START);
const log = { debug() {}, info() {}, warn: console.error, error: console.error };
const compaction = new HistoryCompaction({ store, clock, log, shards: () => null });
await store.history.makePartitions(dayOf(START));

/** Numbers between 0 and 1 that are the same in each run. */
let state = 12_345;
function random(): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
}

class Reporter {
  commit = deviceCommit();
  readonly #numbers = Array.from({ length: 12 }, () => 20 + 5 * random());
  #count = 0;

  get id(): string {
    return this.commit.ref.id;
  }

  get tenantId(): string {
    return this.commit.tenantId;
  }

  /** The commit of the next report. */
  next(time: number): typeof this.commit {
    this.#count += 1;
    const report: Record<string, number | boolean | string> = {};
    this.#numbers.forEach((value, n) => {
      this.#numbers[n] = value + (random() - 0.5) / 5;
      report[`temperature_${n}`] = Math.round((this.#numbers[n] as number) * 10) / 10;
    });
    for (let n = 0; n < 4; n += 1) report[`energy_${n}`] = this.#count * (n + 1) + Math.floor(random() * 3);
    for (let n = 0; n < 2; n += 1) report[`on_${n}`] = random() > 0.1;
    for (let n = 0; n < 2; n += 1) report[`mode_${n}`] = random() > 0.05 ? 'auto' : 'manual';
    const deviceAt = time + Math.floor(random() * 40);
    const at = deviceAt + 5 + Math.floor(random() * 20);
    const row: StoredReport = [at, deviceAt, this.#count, report];
    this.commit = nextCommit(this.commit, { samples: { at, text: JSON.stringify([row]) }, fixedUnchanged: true });
    return this.commit;
  }
}

const historyBytes = async (): Promise<number> => {
  await database.query('vacuum');
  const { rows } = await database.query(
    `select sum(pg_total_relation_size(oid)) as value from pg_class where relkind = 'r' and relname ~ '^(samples|history_)'`,
  );
  return Number(rows[0].value);
};

let missed = false;
function limit(what: string, value: number, most: number, unit: string): void {
  const isMissed = value > most && !options.short;
  missed ||= isMissed;
  console.log(`${what}: ${value.toFixed(1)} ${unit}, limit ${most} ${unit}${isMissed ? ' MISSED' : ''}`);
}

async function latencies(read: () => Promise<unknown>): Promise<number[]> {
  const values: number[] = [];
  for (let n = 0; n < scale.reads; n += 1) {
    const before = performance.now();
    await read();
    values.push(performance.now() - before);
  }
  return values;
}

const sweep = async (): Promise<void> => {
  const before = performance.now();
  await compaction.sweep();
  const today = dayOf(clock.now());
  const { compactedBefore } = await compaction.progress();
  await store.history.dropPartitions({ today, samplesFrom: 0, rollupsFrom: 0 }, compactedBefore);
  console.log(`compaction and merge: ${((performance.now() - before) / 1_000).toFixed(1)} s`);
};

// One day of all devices.
const devices = Array.from({ length: scale.devices }, () => new Reporter());
await store.actors.commit(devices.map(({ commit }) => commit));
for (let n = 0; n < scale.reports; n += 1) {
  for (let from = 0; from < devices.length; from += 64) {
    const batch = devices.slice(from, from + 64);
    await store.actors.commit(batch.map((device) => device.next(START + n * MINUTE)));
  }
}
const samples = scale.devices * scale.reports * PROPERTIES;
limit('a sample before its day is rolled up', (await historyBytes()) / samples, BYTES_BEFORE, 'B');
clock.set(START + 2 * DAY_MS + 60 * MINUTE);
await sweep();
limit('a sample after that', (await historyBytes()) / samples, BYTES_AFTER, 'B');

// A week of one device, with a report a minute, and a year of another one, with a report an hour.
const [first] = devices;
if (first === undefined) throw new Error('no devices');
for (let day = 1; day < WEEK_DAYS; day += 1) {
  for (let n = 0; n < scale.reports; n += 1) await store.actors.commit([first.next(START + day * DAY_MS + n * MINUTE)]);
}
const yearly = new Reporter();
await store.actors.commit([yearly.commit]);
for (let day = 0; day < scale.yearDays; day += 1) {
  for (let n = 0; n < 24; n += 1) await store.actors.commit([yearly.next(START + day * DAY_MS + n * 60 * MINUTE)]);
}
clock.set(START + (scale.yearDays + 2) * DAY_MS);
await sweep();
const series = ({ id: deviceId, tenantId }: Reporter, days: number) => ({
  ...{ tenantId, deviceId, property: 'temperature_3', from: START, to: START + days * DAY_MS },
});
const week = await latencies(async () => {
  const read = await readSamples({ store }, series(first, WEEK_DAYS), 1_000_000);
  if (!read.ok || read.value.samples.length !== WEEK_DAYS * scale.reports)
    throw new Error('samples of the week are missing');
});
console.log(`samples of a week of one property: ${formatLatencies(week)}`);
limit('a week, 99 %', percentile(week, 99), WEEK_P99_MS, 'ms');
const request = series(yearly, scale.yearDays);
const year = await latencies(async () => {
  const read = await readBuckets({ store }, request, DAY_MS, request.to);
  if (!read.ok || read.value.buckets.length !== scale.yearDays) throw new Error('intervals of the year are missing');
});
console.log(`days of a year of one property: ${formatLatencies(year)}`);
limit('a year, 99 %', percentile(year, 99), YEAR_P99_MS, 'ms');

const today = dayOf(clock.now());
const before = performance.now();
const dropped = await store.history.dropPartitions(
  { today, samplesFrom: dayOf(START) + 1, rollupsFrom: 0 },
  (await compaction.progress()).compactedBefore,
);
console.log(`${dropped} partitions dropped`);
limit('retention of a day', performance.now() - before, DROP_MS, 'ms');

await store.close();
await database.end();
await cluster.stop();
process.exitCode = missed ? 1 : 0;
