import { DAY_MS, dayOf } from '../../../src/domain/day.ts';
import { decodeRollup } from '../../../src/domain/history/rollup.ts';
import { type Sample, type StoredReport, sampleValueAt } from '../../../src/domain/history/sample.ts';
import { decodeSegment } from '../../../src/domain/history/segment.ts';
import type { Tables } from '../../support/memory-store/database.ts';
import { dayKey, tailOf, unmerged } from '../../support/memory-store/history.ts';
import type { Device } from '../workload/device.ts';
import { IMPORTED, type Import } from '../workload/imports.ts';
import type { SimulatedTenant } from '../workload/simulated-tenant.ts';

const COUNTER = 'n';

/** Each acknowledged number is in the history of its device once, and each other one that was reported at most once. */
export function checkHistory({ world, devices, cluster }: SimulatedTenant): void {
  const { tables } = cluster.database;
  for (const device of devices) {
    const samples = samplesOf(tables, device.id, COUNTER).sort((one, other) => one.sequence - other.sequence);
    const problem = problemOf(
      device,
      samples.map(({ value }) => Number(value)),
    );
    if (problem !== null) world.fail('acknowledged-reports-are-in-the-history-once', `${device.id}: ${problem}`);
    checkImports({ world, cluster }, device);
  }
  for (const row of tables.historyRollups.values()) {
    // The samples of imports expire during a run.
    if (row.property === IMPORTED && !tables.historySegments.has(dayKey(row))) continue;
    const segment = tables.historySegments.get(dayKey(row));
    const counted = decodeRollup(row.rollups['1d'], row.day * DAY_MS, DAY_MS).map(({ count }) => count);
    const stored = segment === undefined ? null : decodeSegment(segment.body).length;
    if (segment?.part !== row.part || counted.length !== 1 || counted[0] !== stored)
      world.fail('roll-ups-count-each-sample-once', `${row.deviceId} ${row.property}: ${counted} of ${stored} samples`);
  }
  world.count('days merged', tables.historyRollups.size);
}

function problemOf(
  { counter, acknowledgedNumbers }: Pick<Device, 'counter' | 'acknowledgedNumbers'>,
  numbers: readonly number[],
): string | null {
  const found = new Set(numbers);
  const missing = [...acknowledgedNumbers].find((n) => !found.has(n));
  if (missing !== undefined) return `${missing} was acknowledged and is missing`;
  const repeated = numbers.find((n, at) => numbers.indexOf(n) < at);
  if (repeated !== undefined) return `${repeated} is repeated`;
  const unordered = numbers.find((n, at) => at > 0 && n < (numbers[at - 1] as number));
  if (unordered !== undefined) return `${unordered} is not in the order of the reports`;
  const unknown = numbers.find((n) => !(n >= 1 && n <= counter));
  return unknown === undefined ? null : `${unknown} was not reported`;
}

/** Each number of an acknowledged import is in the history once; another import is there as a whole, or not at all. */
function checkImports({ world, cluster }: Pick<SimulatedTenant, 'world' | 'cluster'>, device: Device): void {
  const { tables } = cluster.database;
  const fail = (detail: string) =>
    world.fail('acknowledged-imports-are-in-the-history-once', `${device.id}: ${detail}`);
  const samples = samplesOf(tables, device.id, IMPORTED);
  for (const imported of device.imports) {
    const problem = problemOfImport(imported, summaryOfImport(tables, device.id, imported, samples));
    if (problem !== null) fail(problem);
  }
  const times = new Set(device.imports.flatMap(({ reports }) => reports.map(({ time }) => time)));
  const unknown = samples.find(({ time }) => !times.has(time));
  if (unknown !== undefined) fail(`${unknown.value} was not imported at ${unknown.time}`);
}

interface ImportSummary {
  count: number;
  sum: number;
}

function problemOfImport({ reports, acknowledged }: Import, { count, sum }: ImportSummary): string | null {
  if (count === 0 && !acknowledged) return null;
  const expected = reports.reduce((total, { value }) => total + value, 0);
  if (count === reports.length && sum === expected) return null;
  return `${count} numbers with the sum ${sum} are stored of an import of ${reports.map(({ value }) => value)}`;
}

/** The samples of an import; those of an expired day are in its roll-up, which has no others. */
function summaryOfImport(
  tables: Tables,
  deviceId: string,
  { reports, isExpired }: Import,
  samples: readonly ImportedSample[],
): ImportSummary {
  const times = new Set(reports.map(({ time }) => time));
  const values = samples.filter(({ time }) => times.has(time)).map(({ value }) => Number(value));
  const stored = { count: values.length, sum: values.reduce((total, value) => total + value, 0) };
  const day = dayOf(reports[0]?.time ?? 0);
  const key = dayKey({ deviceId, property: IMPORTED, day });
  const rollup = tables.historyRollups.get(key);
  if (!isExpired || rollup === undefined || tables.historySegments.has(key)) return stored;
  const [bucket] = decodeRollup(rollup.rollups['1d'], day * DAY_MS, DAY_MS);
  return { count: stored.count + (bucket?.count ?? 0), sum: stored.sum + (bucket?.numbers?.sum ?? 0) };
}

type ImportedSample = Pick<Sample, 'time' | 'value'>;

/** As the service reads a series: merged segments, later ones, and reports that are not compacted. */
function samplesOf(tables: Tables, deviceId: string, property: string): Omit<Sample, 'at'>[] {
  const isOfSeries = (row: { deviceId: string; property: string }) =>
    row.deviceId === deviceId && row.property === property;
  const segments = [...tables.historySegments.where(isOfSeries), ...unmerged(tables, deviceId).filter(isOfSeries)];
  const reports = tailOf(tables, deviceId).flatMap(({ text }) => JSON.parse(text) as StoredReport[]);
  const tail = reports.flatMap((report) => {
    const [, time, sequence] = report;
    const value = sampleValueAt(report, { from: 'state', names: [property] });
    return value === undefined ? [] : [{ time, sequence, value }];
  });
  return [...segments.flatMap(({ body }) => decodeSegment(body)), ...tail];
}
