import { isObject } from '../json/value.ts';
import type { EpochMs, Json, JsonObject } from '../values.ts';

/** A value of a series: a leaf of a report. */
export type SampleValue = number | boolean | string;

/** A value that a device reported, at its own time. */
export interface Sample {
  /** The time that the device signed; the time of receipt for a message without one. */
  time: EpochMs;
  /** When the service received it. */
  at: EpochMs;
  sequence: number;
  value: SampleValue;
}

/**
 * An accepted report as it is stored until it is compacted: received, signed by the device, sequence number, report. Telemetry
 * of a `hello` or `heartbeat` has an empty report and is the last member.
 */
export type StoredReport = [
  at: EpochMs,
  time: EpochMs,
  sequence: number,
  report: JsonObject,
  telemetry?: JsonObject | undefined,
];

/** A report of the state without its times, as `forEachLeaf` and `sampleValueAt` read it. */
export const untimedReport = (report: JsonObject): StoredReport => [0, 0, 0, report];

/** The first name of the paths of telemetry. One of the state that begins with `$` is written with a backslash before it. */
export const TELEMETRY_ROOT = '$telemetry';

/** The sequence number of imported reports; those of devices begin at 1. */
export const IMPORTED_SEQUENCE = 0;

/** Longer texts, such as log lines, leave no samples. */
export const MAX_SAMPLE_TEXT = 64;
/** Characters of the path of a property. */
export const MAX_PROPERTY_LENGTH = 128;

/** The order of a series: by the device's time; of samples with the same time the higher sequence number is the later one. */
export const bySampleOrder = (one: Sample, other: Sample): number =>
  one.time - other.time || one.sequence - other.sequence || one.at - other.at;

/**
 * Calls `visit` for each number, boolean and short text of a report, with its path: names separated by dots. A dot or a
 * backslash in a name, and a dollar sign at the start of the first name, is preceded by a backslash. Lists and nulls have no
 * samples.
 */
export function forEachLeaf(
  [, , , report, telemetry]: StoredReport,
  visit: (property: string, value: SampleValue) => void,
): void {
  visitMembers(report, '', visit);
  if (telemetry !== undefined) visitMembers(telemetry, `${TELEMETRY_ROOT}.`, visit);
}

function visitMembers(object: JsonObject, prefix: string, visit: (property: string, value: SampleValue) => void): void {
  for (const name of Object.keys(object)) {
    const value = object[name] as Json;
    const path = prefix === '' ? escapeFirstName(name) : prefix + escapeName(name);
    if (isSampleValue(value)) {
      if (path.length <= MAX_PROPERTY_LENGTH) visit(path, value);
    } else if (isObject(value)) visitMembers(value, `${path}.`, visit);
  }
}

export const isSampleValue = (value: Json): value is SampleValue =>
  (typeof value === 'number' && Number.isFinite(value)) ||
  typeof value === 'boolean' ||
  (typeof value === 'string' && value.length <= MAX_SAMPLE_TEXT);

const escapeName = (name: string): string =>
  name.includes('.') || name.includes('\\') ? name.replace(/[\\.]/g, '\\$&') : name;

const escapeFirstName = (name: string): string => (name.startsWith('$') ? `\\${escapeName(name)}` : escapeName(name));

/** Where the values of a series are: names in reports of the state, or in telemetry. */
export interface SeriesPath {
  from: 'state' | 'telemetry';
  names: readonly string[];
}

/** Null for a path that no series has. */
export function seriesPathOf(property: string): SeriesPath | null {
  const names = pathNamesOf(property);
  const isReserved = property.startsWith('$');
  if (isReserved && names[0] !== TELEMETRY_ROOT) return null;
  const path: SeriesPath = isReserved ? { from: 'telemetry', names: names.slice(1) } : { from: 'state', names };
  return propertyOf(path) === property ? path : null;
}

function propertyOf({ from, names }: SeriesPath): string {
  if (from === 'telemetry') return [TELEMETRY_ROOT, ...names.map(escapeName)].join('.');
  return names.map((name, n) => (n === 0 ? escapeFirstName(name) : escapeName(name))).join('.');
}

/** The value of a series in a report; undefined if the report has none that leaves a sample. */
export function sampleValueAt([, , , report, telemetry]: StoredReport, { from, names }: SeriesPath) {
  let value: Json | undefined = from === 'state' ? report : telemetry;
  for (const name of names) {
    if (value === undefined || !isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name];
  }
  return value !== undefined && isSampleValue(value) ? value : undefined;
}

/** The value of a property in a state; undefined for telemetry, and for a value that leaves no sample. */
export function stateValueAt(state: JsonObject, property: string): SampleValue | undefined {
  const path = seriesPathOf(property);
  return path === null ? undefined : sampleValueAt(untimedReport(state), path);
}

/** The value of a series in telemetry, with the names of the wire; undefined for a property of the state. */
export function telemetryValueAt(telemetry: JsonObject, property: string): SampleValue | undefined {
  const path = seriesPathOf(property);
  return path === null ? undefined : sampleValueAt([0, 0, 0, {}, telemetry], path);
}

/** The names of a property's path. */
export function pathNamesOf(property: string): string[] {
  const names = [''];
  for (const [part] of property.matchAll(/\\[\\.$]|\.|[^.\\]+|\\/g)) {
    if (part === '.') names.push('');
    else names.push(`${names.pop() ?? ''}${part.length === 2 && part.startsWith('\\') ? part[1] : part}`);
  }
  return names;
}
