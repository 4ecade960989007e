import { pathNamesOf } from './history/sample.ts';
import { isObject } from './json/value.ts';
import type { Capability } from './manifest.ts';
import { paramOf } from './twin.ts';
import type { Json, JsonObject } from './values.ts';

// Units of parameters and of reported properties, as they are shown after a number: `W`, `°C`, `%`.

const UNIT = /^[^\p{C}\p{Z}]{1,16}$/u;

/** 1 to 16 characters without white space. */
export const isUnit = (value: unknown): value is string => typeof value === 'string' && UNIT.test(value);

interface UnitSource extends Pick<Capability, 'paramSchema'> {
  expectedState?: JsonObject | undefined;
  units?: Readonly<Record<string, string>> | undefined;
}

/** The units of the parameters of an action. */
export function paramUnits({ paramSchema }: Pick<Capability, 'paramSchema'>): ReadonlyMap<string, string> {
  const { properties } = paramSchema;
  const units = new Map<string, string>();
  if (!isObject(properties)) return units;
  for (const [name, schema] of Object.entries(properties)) {
    if (isObject(schema) && isUnit(schema.unit)) units.set(name, schema.unit);
  }
  return units;
}

/**
 * The units of reported properties, by path (`color.hue`): those in the `properties` of the manifest, those that the
 * capabilities list in `units`, and those of the parameters that their expected states refer to.
 */
export function propertyUnits(
  capabilities: readonly UnitSource[],
  properties: Readonly<Record<string, { unit?: string | undefined }>> = {},
): ReadonlyMap<string, string> {
  const units = new Map<string, string>();
  for (const capability of capabilities) {
    if (capability.expectedState !== undefined) {
      collect(capability.expectedState, '', paramUnits(capability), units);
    }
  }
  for (const { units: listed = {} } of capabilities) {
    for (const [path, unit] of Object.entries(listed)) units.set(path, unit);
  }
  for (const [path, { unit }] of Object.entries(properties)) {
    if (unit !== undefined) units.set(pathNamesOf(path).join('.'), unit);
  }
  return units;
}

function collect(template: JsonObject, path: string, params: ReadonlyMap<string, string>, into: Map<string, string>) {
  for (const [name, part] of Object.entries(template)) {
    const at = path === '' ? name : `${path}.${name}`;
    const param = paramOf(part as Json);
    const unit = param === undefined ? undefined : params.get(param);
    if (unit !== undefined) into.set(at, unit);
    else if (isObject(part as Json)) collect(part as JsonObject, at, params, into);
  }
}

/** The last part of a name that states its unit, as in `power_w` and `auto_off_s`. */
const unitWords: Readonly<Record<string, string>> = {
  ...{ w: 'W', kw: 'kW', wh: 'Wh', kwh: 'kWh', v: 'V', mv: 'mV', ma: 'mA', hz: 'Hz' },
  ...{ s: 's', ms: 'ms', min: 'min', celsius: '°C', kelvin: 'K', percent: '%', lx: 'lx', lux: 'lx' },
  ...{ hpa: 'hPa', ppm: 'ppm', dbm: 'dBm', mm: 'mm', cm: 'cm', kg: 'kg' },
};

/** The unit that the name of a property or parameter ends with; undefined for a name that is only that part. */
export function unitInName(path: string): string | undefined {
  const words = path.slice(path.lastIndexOf('.') + 1).split('_');
  const last = words.length > 1 ? words.at(-1) : undefined;
  return last !== undefined && Object.hasOwn(unitWords, last) ? unitWords[last] : undefined;
}

/** Units of what devices report in `hello` and `heartbeat`, by path. */
const telemetryUnits: ReadonlyMap<string, string> = new Map([
  ['$telemetry.rssi', 'dBm'],
  ['$telemetry.battery', '%'],
  ['$telemetry.uptime_s', 's'],
  ['$telemetry.free_heap', 'B'],
]);

/** The unit of a series by its path in the history: that of a manifest's `propertyUnits`, or a known one. */
export const seriesUnit = (property: string, units: ReadonlyMap<string, string> = new Map()): string | undefined =>
  units.get(pathNamesOf(property).join('.')) ?? telemetryUnits.get(property) ?? unitInName(property);

/** The name without a last part that is its unit: `power_w` → `power`. */
export const nameWithoutUnit = (name: string): string =>
  unitInName(name) === undefined ? name : name.slice(0, name.lastIndexOf('_'));
