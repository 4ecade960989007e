import { type Category, categoryOf } from '../../../src/domain/capability-registry.ts';
import type { JsonObject } from '../../../src/domain/values.ts';
import type { IconName } from '../ui/icons.tsx';
import { formatValue, type UnitOf, valueName } from '../ui/values.tsx';
import { categoryUnits } from './known-units.ts';

// Icon and main values of a device in lists and tiles, by its category.

const MAX_SHOWN = 2;

/** Most important first; the first two that a device reports are shown. */
const mainProperties: Readonly<Record<Category, readonly string[]>> = {
  light: ['on', 'brightness'],
  switch: ['on', 'power_w'],
  climate: ['temperature', 'target_celsius', 'mode'],
  lock: ['locked', 'door_open'],
  cover: ['position', 'tilt'],
  valve: ['open', 'flow'],
  sensor: ['temperature', 'humidity', 'motion', 'contact', 'illuminance', 'alarm'],
  appliance: ['running', 'on', 'program'],
  controller: ['operating_mode', 'armed'],
};

/** Texts of the two values of a property, false first. */
const words: Readonly<Record<string, readonly [string, string]>> = {
  on: ['off', 'on'],
  locked: ['unlocked', 'locked'],
  door_open: ['door closed', 'door open'],
  open: ['closed', 'open'],
  running: ['not running', 'running'],
  armed: ['disarmed', 'armed'],
};

const icons: Readonly<Record<Category, IconName>> = {
  light: 'device',
  switch: 'switch',
  climate: 'climate',
  lock: 'lock',
  cover: 'cover',
  valve: 'valve',
  sensor: 'sensor',
  appliance: 'appliance',
  controller: 'controller',
};

export function iconOfDevice(deviceType: string): IconName {
  const category = categoryOf(deviceType);
  return category === null ? 'unknownDevice' : icons[category];
}

/** The most important property that a device reports, by its category; null without one. */
export function mainProperty(deviceType: string, state: JsonObject): string | null {
  const category = categoryOf(deviceType);
  const preferred = category === null ? [] : mainProperties[category];
  return preferred.find((name) => Object.hasOwn(state, name)) ?? Object.keys(state).sort()[0] ?? null;
}

/** The most important values of a reported state, such as `on, brightness 40`; null without a state. */
export function mainValue(deviceType: string, state: JsonObject): string | null {
  const category = categoryOf(deviceType);
  const preferred = category === null ? [] : mainProperties[category].filter((name) => Object.hasOwn(state, name));
  const names = preferred.length > 0 ? preferred : Object.keys(state).sort();
  const unitOf = categoryUnits(deviceType);
  return names.length === 0
    ? null
    : names
        .slice(0, MAX_SHOWN)
        .map((name) => shortValue(name, state, unitOf))
        .join(', ');
}

/** The word for a value of a property with two states, such as `locked`; null for others. */
export function stateWord(name: string, value: unknown): string | null {
  const pair = words[name];
  return typeof value === 'boolean' && pair !== undefined ? pair[value ? 1 : 0] : null;
}

const shortValue = (name: string, state: JsonObject, unitOf: UnitOf): string =>
  stateWord(name, state[name]) ?? `${valueName(name)} ${formatValue(state[name], name, unitOf)}`;
