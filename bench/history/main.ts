// What part of the rate of ingest remains with the history, how many bytes does a sample take before and after its day is rolled
// up, what does merging a day cost, how long do reads, retention and pages of a timeline take, and how fast is an export?

import { setImmediate as nextTurn } from 'node:timers/promises';
import pg from 'pg';
import { readConfig } from '../../src/config.ts';
import { DAY_MS, dayOf } from '../../src/domain/day.ts';
import { rowFormats } from '../../src/domain/history/export-rows.ts';
import type { StoredReport } from '../../src/domain/history/sample.ts';
import { blocksOf } from '../../src/operations/devices/history-export.ts';
import { readBuckets, readManyBuckets, readSamples } from '../../src/operations/devices/series-reader.ts';
import { HistoryCompaction } from '../../src/services/history-compaction.ts';
import { openStore } from '../../src/store/open.ts';
import { deviceCommit, newId, nextCommit } from '../../test/support/actor-commits.ts';
import { testClock } from '../../test/support/clock.ts';
import { samplesOfDay, storeHistory } from '../../test/support/stored-history.ts';
import { checkLimit, formatLatencies, percentile } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment } from '../support/service.ts';
import { compareIngest } from './ingest.ts';
import { homeWithCommands } from './timeline.ts';

/*
 * Partitions are made and dropped each day as by the service, so that statements are planned for those of a year. Devices report 20 properties a minute: 12 numbers that change slowly, 4 counters, 2 booleans and 2 texts, at times that
 * vary by some milliseconds. Reports are committed as the runtime commits them, by the store of the service.
 */

const MINUTE = 60_000;
const PROPERTIES = 20;
const READS = 200;
const WEEK_DAYS = 7;
const ROLLUP_DAYS = 730;
/** Reads of which each is the first one of its connections, which have to plan the statement. */
const FIRST_READS = 20;
const BYTES_BEFORE = 40;
const BYTES_AFTER = 12;
const WEEK_P99_MS = 20;
const YEAR_P99_MS = 50;
const DROP_MS = 50;
/** 100 series of a day in intervals of five minutes. */
const SERIES = 100;
const SERIES_P99_MS = 150;
const EXPORT_PER_SECOND = 500_000;
const EXPORT_DAYS = 7;
const EXPORT_HEAP_MB = 64;
/** Blocks of an export between two readings of its memory. */
const BLOCKS_PER_READING = 16;
/** A page of the timeline of a home. */
const TIMELINE_P99_MS = 50;
/** Rates of ingest differ by a third from one to the next: rounds of each side, by default. */
const INGEST_TRIES = 9;
/** Reads without a limit, of reports that are not compacted. */
const UNCOMPACTED_READS = 40;

const options = readOptions(INGEST_TRIES);
const scale = options.short
  ? { devices: 5, reports: 60, yearDays: 10, reads: 10, firstReads: 2, exported: 5_000, commands: 2_000 }
  : {
      devices: 100,
      reports: 1_440,
      yearDays: 365,
      reads: READS,
      firstReads: FIRST_READS,
      exported: 86_400,
      commands: 100_000,
    };

printMachine();
const cluster = await startCluster(options);
console.log(await cluster.describe());
await compareIngest(cluster, options);
const url = await cluster.database('history');
const database = new pg.Client(url);
await database.connect();
const openAnother = () => openStore(readConfig(makeDeployment(url).env));
const store = await openAnother();

const START = Date.UTC(2026, 0, 5);
const clock = testClock(START);
const log = { debug() {}, info() {}, warn: console.error, error: console.error };
const compaction = new HistoryCompaction({ store, clock, log, shards: () => null });
const FIRST_DAY = dayOf(START);
await store.history.makePartitions(FIRST_DAY);

/** Numbers between 0 and 1 that are the same in each run. */
let state = 12_345;
function random(): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
}

const TENANT = newId();
/** The properties of a report. */
const names = [
  ...Array.from({ length: 12 }, (_, n) => `temperature_${n}`),
  ...Array.from({ length: 4 }, (_, n) => `energy_${n}`),
  ...[0, 1].flatMap((n) => [`on_${n}`, `mode_${n}`]),
];

class Reporter {
  commit = deviceCommit({ tenantId: TENANT });
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

const limit = (what: string, value: number, atMost: number, unit: string): void =>
  checkLimit(what, value, { atMost, unit, short: options.short });

async function latencies(read: () => Promise<unknown>, reads = scale.reads): Promise<number[]> {
  const values: number[] = [];
  for (let n = 0; n < reads; n += 1) {
    const before = performance.now();
    await read();
    values.push(performance.now() - before);
  }
  return values;
}

/** Processor time in milliseconds of this process and of PostgreSQL. */
async function cost(work: () => Promise<unknown>): Promise<{ service: number; database: number; elapsed: number }> {
  const before = { cpu: process.cpuUsage(), database: cluster.cpu(), at: performance.now() };
  await work();
  const { user, system } = process.cpuUsage(before.cpu);
  const elapsed = performance.now() - before.at;
  return { service: (user + system) / 1_000, database: (cluster.cpu() - before.database) / 1_000, elapsed };
}

async function printCost(what: string, work: () => Promise<unknown>): Promise<void> {
  const { service, database, elapsed } = await cost(work);
  const seconds = (ms: number): string => `${(ms / 1_000).toFixed(2)} s`;
  console.log(
    `${what}: processor time of the service ${seconds(service)}, of PostgreSQL ${seconds(database)}; after ${seconds(elapsed)}`,
  );
}

async function drop(samplesFrom: number): Promise<number> {
  const today = dayOf(clock.now());
  const { compactedBefore } = await compaction.progress();
  return store.history.dropPartitions({ today, samplesFrom, rollupsFrom: today - ROLLUP_DAYS }, compactedBefore);
}

// One day of all devices.
const devices = Array.from({ length: scale.devices }, () => new Reporter());
await store.actors.commit(devices.map(({ commit }) => commit));
for (let n = 0; n < scale.reports; n += 1) {
  for (let from = 0; from < devices.length; from += 64) {
    const batch = devices.slice(from, from + 64);
    await store.actors.commit(batch.map((device) => device.next(START + n * MINUTE)));
  }
}
const series = scale.devices * PROPERTIES;
const samples = series * scale.reports;
limit('a sample before its day is rolled up', (await historyBytes()) / samples, BYTES_BEFORE, 'B');
/** 20 properties of 5 devices. */
const keys = devices
  .slice(0, SERIES / PROPERTIES)
  .flatMap(({ id: deviceId }) => names.map((property) => ({ deviceId, property })));
const queryDay = async (): Promise<void> => {
  const day = { tenantId: (devices[0] as Reporter).tenantId, keys, from: START, to: START + DAY_MS };
  const read = await readManyBuckets({ store }, day, 5 * MINUTE, day.to);
  const counts = read.ok
    ? read.value.series.map(({ buckets }) => buckets.reduce((sum, { count }) => sum + count, 0))
    : [];
  if (counts.length !== SERIES || counts.some((count) => count !== scale.reports))
    throw new Error('samples are missing');
};
const compacted = `${SERIES} series of a day whose reports are`;
const uncompactedReads = Math.min(scale.reads, UNCOMPACTED_READS);
console.log(`${compacted} not compacted: ${formatLatencies(await latencies(queryDay, uncompactedReads))}`);
clock.set(START + DAY_MS - MINUTE);
await printCost(`compaction of ${scale.devices * scale.reports} reports`, () => compaction.sweep());
clock.set(START + DAY_MS + 60 * MINUTE);
await printCost(`merging ${series} days of a property`, () => compaction.sweep());
await drop(FIRST_DAY - 1);
const complete = await latencies(queryDay);
console.log(`${compacted} rolled up: ${formatLatencies(complete)}`);
limit(`${SERIES} series of a complete day, 99 %`, percentile(complete, 99), SERIES_P99_MS, 'ms');
limit('a sample after that', (await historyBytes()) / samples, BYTES_AFTER, 'B');

// A year of one device with a report an hour, and its last week of another one, with a report a minute.
const [first] = devices;
if (first === undefined) throw new Error('no devices');
const yearly = new Reporter();
await store.actors.commit([yearly.commit]);
const weekFrom = START + (scale.yearDays - WEEK_DAYS) * DAY_MS;
await printCost(`${scale.yearDays} days with their reports and upkeep`, async () => {
  for (let day = 0; day < scale.yearDays; day += 1) {
    const from = START + day * DAY_MS;
    for (let n = 0; n < 24; n += 1) await store.actors.commit([yearly.next(from + n * 60 * MINUTE)]);
    for (let n = 0; from >= weekFrom && n < scale.reports; n += 1)
      await store.actors.commit([first.next(from + n * MINUTE)]);
    clock.set(from + DAY_MS + 60 * MINUTE);
    await store.history.makePartitions(dayOf(clock.now()));
    await compaction.sweep();
    await drop(dayOf(clock.now()) - WEEK_DAYS);
  }
});
const { rows: partitions } = await database.query(
  `select inhparent::regclass::text as name, count(*)::integer as count from pg_inherits
    where inhparent::regclass::text ~ '^(samples|history_[a-z]+)$' and inhparent::regclass::text !~ '_pkey$' group by 1 order by 1`,
);
console.log(`partitions: ${partitions.map(({ name, count }) => `${name} ${count}`).join(', ')}`);

const requestOf = ({ id: deviceId, tenantId }: Reporter, from: number, days: number) => ({
  ...{ tenantId, deviceId, property: 'temperature_3', from, to: from + days * DAY_MS },
});
async function readWeek(of: typeof store): Promise<void> {
  const request = { ...requestOf(first as Reporter, weekFrom, WEEK_DAYS), withoutBefore: true };
  const read = await readSamples({ store: of }, request, 1_000_000);
  if (!read.ok || read.value.samples.length !== WEEK_DAYS * scale.reports)
    throw new Error('samples of the week are missing');
}
const request = requestOf(yearly, START, scale.yearDays);
async function readYear(of: typeof store): Promise<void> {
  const read = await readBuckets({ store: of }, request, DAY_MS, request.to);
  if (!read.ok || read.value.buckets.length !== scale.yearDays) throw new Error('intervals of the year are missing');
}
/** Prints latencies, and the processor time of a read, which depends less on other load. */
async function measure(what: string, read: (of: typeof store) => Promise<void>): Promise<number[]> {
  let values: number[] = [];
  const { service, database } = await cost(async () => {
    values = await latencies(() => read(store));
  });
  const each = (ms: number): string => `${(ms / values.length).toFixed(1)} ms`;
  console.log(`${what}: ${formatLatencies(values)}`);
  console.log(`processor time of a read: of the service ${each(service)}, of PostgreSQL ${each(database)}`);
  return values;
}
const week = await measure('samples of a week of one property', readWeek);
limit('a week, 99 %', percentile(week, 99), WEEK_P99_MS, 'ms');
const year = await measure('days of a year of one property', readYear);
limit('a year, 99 %', percentile(year, 99), YEAR_P99_MS, 'ms');

/** The first read on new connections: the server plans its statements. */
async function firstReads(read: (of: typeof store) => Promise<void>): Promise<number[]> {
  const values: number[] = [];
  for (let n = 0; n < scale.firstReads; n += 1) {
    const other = await openAnother();
    await other.ping(10_000);
    const before = performance.now();
    await read(other);
    values.push(performance.now() - before);
    await other.close();
  }
  return values;
}
console.log(`a week on a new connection: ${formatLatencies(await firstReads(readWeek))}`);
console.log(`a year on a new connection: ${formatLatencies(await firstReads(readYear))}`);

// An export of a property with a sample a second for a week, without the socket.
const dense = new Reporter();
await store.actors.commit([dense.commit]);
const denseDays = Array.from({ length: EXPORT_DAYS }, (_, n) => dayOf(weekFrom) + n);
await storeHistory(
  store,
  { deviceId: dense.id, tenantId: TENANT },
  {
    level: new Map(denseDays.map((day) => [day, samplesOfDay(day, scale.exported, [20, 20.5, 21, 20.5, 19.9])])),
  },
);
/** `onBlock` is called after each block. */
async function exportWeek(format: 'csv' | 'ndjson', onBlock: () => void): Promise<{ rows: number; bytes: number }> {
  const [from, to] = [weekFrom, weekFrom + EXPORT_DAYS * DAY_MS];
  const range = { from, to, now: clock.now(), step: 'raw', retained: to - from };
  const request = { tenantId: TENANT, deviceId: dense.id, pending: [], range, shown: new Set<never>() };
  let rows = 0;
  let bytes = 0;
  for await (const block of blocksOf({ store }, request, 'level', rowFormats[format]())) {
    rows += block.rows;
    bytes += Buffer.from(block.text).length;
    onBlock();
    await nextTurn();
  }
  if (rows !== EXPORT_DAYS * scale.exported) throw new Error('rows of the export are missing');
  return { rows, bytes };
}

/** Without what the next collection of the young generation frees, whose size the V8 flags determine. */
async function memoryOfExport(format: 'csv' | 'ndjson'): Promise<number> {
  global.gc?.();
  const heapBefore = process.memoryUsage().heapUsed;
  let most = heapBefore;
  let blocks = 0;
  await exportWeek(format, () => {
    blocks += 1;
    if (blocks % BLOCKS_PER_READING !== 0) return;
    global.gc?.({ type: 'minor' });
    most = Math.max(most, process.memoryUsage().heapUsed);
  });
  return most - heapBefore;
}

for (const format of ['csv', 'ndjson'] as const) {
  const started = performance.now();
  const { rows, bytes } = await exportWeek(format, () => {});
  const seconds = (performance.now() - started) / 1_000;
  console.log(`export as ${format}: ${rows} samples, ${(bytes / 1e6).toFixed(1)} MB in ${seconds.toFixed(2)} s`);
  const atLeast = format === 'csv' ? EXPORT_PER_SECOND : null;
  checkLimit('samples a second', rows / seconds, { atLeast, short: options.short });
  limit('memory of the heap beyond that before', (await memoryOfExport(format)) / 1e6, EXPORT_HEAP_MB, 'MB');
}

const before = performance.now();
const dropped = await drop(dayOf(clock.now()) - WEEK_DAYS + 1);
console.log(`${dropped} partitions dropped`);
limit('retention of a day', performance.now() - before, DROP_MS, 'ms');

// The timeline of a home, page by page.
const readPage = await homeWithCommands(store, scale.commands, clock.now());
await database.query('vacuum analyze');
const pages = await measure(`pages of the timeline of a home with ${scale.commands} commands`, async () => {
  if ((await readPage()) === 0) throw new Error('entries of the timeline are missing');
});
limit('a page of the timeline, 99 %', percentile(pages, 99), TIMELINE_P99_MS, 'ms');

await store.close();
await database.end();
await cluster.stop();
