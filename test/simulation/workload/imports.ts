import { DAY_MS, dayOf } from '../../../src/domain/day.ts';
import { iso } from '../../../src/domain/iso-time.ts';
import { getDeviceHistory } from '../../../src/operations/devices/device-history.ts';
import { importHistory } from '../../../src/operations/devices/history-import.ts';
import { MAX_DEVICE_SKEW_MS } from '../../../src/store/contract/history.ts';
import type { Device } from './device.ts';
import type { SimulatedTenant } from './simulated-tenant.ts';

/** The property of imported reports; devices do not report it. */
export const IMPORTED = 'i';

/** The service's clock may be behind. */
const CLOCK_ERROR_MS = 60_000;
/** Recent imports are of days whose samples are retained until the end of the run. */
const RECENT_MS = 23 * 3_600_000;
/** Samples of these days have expired: only their roll-ups are kept. */
const EXPIRED_DAYS = 10;
const HOUR_MS = 3_600_000;

export interface ImportedReport {
  time: number;
  value: number;
}

/** The reports of one request. */
export interface Import {
  reports: readonly ImportedReport[];
  /** Its samples have expired, and its day has no others: an import into a day that has been merged and has expired is dropped. */
  isExpired: boolean;
  acknowledged: boolean;
}

/** Imports numbers, each once and at a time of its own, and reads after each import the value before a range. */
export async function importNumbers(service: SimulatedTenant, device: Device): Promise<void> {
  const { owner, world } = service;
  const imported = nextImport(service, device);
  device.imports.push(imported);
  const reports = imported.reports.map(({ time, value }) => ({ at: iso(time), state: { [IMPORTED]: value } }));
  const { code } = await service.request(owner, importHistory, { id: device.id, reports });
  if (code !== null) return;
  imported.acknowledged = true;
  world.count('imports acknowledged', reports.length);
  await readValueBefore(service, device);
}

function nextImport({ random }: SimulatedTenant, { imports, registeredAt }: Device): Import {
  const latest = registeredAt - MAX_DEVICE_SKEW_MS - CLOCK_ERROR_MS;
  const isExpired = random.chance(0.3);
  const known = imports.flatMap(({ reports }) => reports);
  const times = new Set(known.map(({ time }) => time));
  const expiredDay = dayOf(registeredAt) - EXPIRED_DAYS - imports.length;
  const reports: ImportedReport[] = [];
  for (let left = 1 + random.int(3); left > 0; ) {
    const time = isExpired ? expiredDay * DAY_MS + random.int(DAY_MS) : latest - random.int(RECENT_MS);
    if (times.has(time)) continue;
    times.add(time);
    left -= 1;
    reports.push({ time, value: known.length + reports.length + 1 });
  }
  return { reports, isExpired, acknowledged: false };
}

/**
 * The day after the registration has ended when the reports are imported. Before a range of it the device has no other value
 * of the property than imported ones.
 */
async function readValueBefore({ owner, callers, world }: SimulatedTenant, device: Device): Promise<void> {
  const from = (dayOf(device.registeredAt) + 1) * DAY_MS;
  const acknowledged = device.imports.filter((one) => one.acknowledged).flatMap(({ reports }) => reports);
  const latest = acknowledged.reduce((last, one) => (one.time > last.time ? one : last));
  const range = { from: iso(from), to: iso(from + HOUR_MS), step: 'changes' };
  const sent = await callers.request(owner, getDeviceHistory, { id: device.id, property: IMPORTED, ...range });
  if (sent.code !== null) return;
  // An import that was refused, or not answered yet.
  const other = device.imports.filter((one) => !one.acknowledged).flatMap(({ reports }) => reports);
  const later = other.filter(({ time }) => time > latest.time);
  const { before } = sent.body.history;
  world.count('values before a range read');
  if ([latest, ...later].some(({ value }) => value === before)) return;
  world.fail(
    'imports-are-read-before-a-range',
    `${device.id}: the value before ${iso(from)} is ${before}, and ${latest.value} was imported at ${iso(latest.time)}`,
  );
}
