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

/** An accepted report as it is stored until it is compacted: received, signed by the device, sequence number, report. */
export type StoredReport = [at: EpochMs, time: EpochMs, sequence: number, report: JsonObject];

/** Longer texts, such as log lines, leave no samples. */
export const MAX_SAMPLE_TEXT = 64;
/** Characters of the path of a property. */
export const MAX_PROPERTY_LENGTH = 128;

/** The order of a series: by the device's time; of samples with the same time the higher sequence number is the later one. */
export const bySampleOrder = (one: Sample, other: Sample): number =>
  one.time - other.time || one.sequence - other.sequence || one.at - other.at;

/**
 * Calls `visit` for each number, boolean and short text in the report, with its path: names separated by dots. A dot or a
 * backslash in a name is preceded by a backslash. Lists and nulls have no samples.
 */
export function forEachLeaf(report: JsonObject, visit: (property: string, value: SampleValue) => void): void {
  visitMembers(report, '', visit);
}

function visitMembers(object: JsonObject, prefix: string, visit: (property: string, value: SampleValue) => void): void {
  for (const name of Object.keys(object)) {
    const value = object[name] as Json;
    const path = prefix + escapeName(name);
    if (isSampleValue(value)) {
      if (path.length <= MAX_PROPERTY_LENGTH) visit(path, value);
    } else if (isObject(value)) visitMembers(value, `${path}.`, visit);
  }
}

const isSampleValue = (value: Json): value is SampleValue =>
  (typeof value === 'number' && Number.isFinite(value)) ||
  typeof value === 'boolean' ||
  (typeof value === 'string' && value.length <= MAX_SAMPLE_TEXT);

const escapeName = (name: string): string => (/[\\.]/.test(name) ? name.replace(/[\\.]/g, '\\$&') : name);

/** The value of a property in a report; undefined if the report has none that leaves a sample. */
export function sampleValueAt(report: JsonObject, names: readonly string[]): SampleValue | undefined {
  let value: Json = report;
  for (const name of names) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined;
    value = value[name] as Json;
  }
  return isSampleValue(value) ? value : undefined;
}

/** The names of a property's path. */
export function pathNamesOf(property: string): string[] {
  const names = [''];
  for (const [part] of property.matchAll(/\\[\\.]|\.|[^.\\]+|\\/g)) {
    if (part === '.') names.push('');
    else names.push(`${names.pop() ?? ''}${part === '\\\\' || part === '\\.' ? part[1] : part}`);
  }
  return names;
}
