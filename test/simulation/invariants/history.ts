import { DAY_MS } from '../../../src/domain/day.ts';
import { decodeRollup } from '../../../src/domain/history/rollup.ts';
import { type Sample, type StoredReport, sampleValueAt } from '../../../src/domain/history/sample.ts';
import { decodeSegment } from '../../../src/domain/history/segment.ts';
import type { Tables } from '../../support/memory-store/database.ts';
import { dayKey, tailOf, unmerged } from '../../support/memory-store/history.ts';
import type { Device } from '../workload/device.ts';
import type { SimulatedTenant } from '../workload/simulated-tenant.ts';

const COUNTER = 'n';

/** Each acknowledged number is in the history of its device once, and each other one that was reported at most once. */
export function checkHistory({ world, devices, cluster }: SimulatedTenant): void {
  const { tables } = cluster.database;
  for (const device of devices) {
    const samples = samplesOf(tables, device.id).sort((one, other) => one.sequence - other.sequence);
    const problem = problemOf(
      device,
      samples.map(({ value }) => Number(value)),
    );
    if (problem !== null) world.fail('acknowledged-reports-are-in-the-history-once', `${device.id}: ${problem}`);
  }
  for (const row of tables.historyRollups.values()) {
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

/** As the service reads a series: merged segments, later ones, and reports that are not compacted. */
function samplesOf(tables: Tables, deviceId: string): Pick<Sample, 'sequence' | 'value'>[] {
  const isCounter = (row: { deviceId: string; property: string }) =>
    row.deviceId === deviceId && row.property === COUNTER;
  const segments = [...tables.historySegments.where(isCounter), ...unmerged(tables, deviceId).filter(isCounter)];
  const reports = tailOf(tables, deviceId).flatMap(({ text }) => JSON.parse(text) as StoredReport[]);
  const tail = reports.flatMap((report) => {
    const [, , sequence] = report;
    const value = sampleValueAt(report, { from: 'state', names: [COUNTER] });
    return value === undefined ? [] : [{ sequence, value }];
  });
  return [...segments.flatMap(({ body }) => decodeSegment(body)), ...tail];
}
