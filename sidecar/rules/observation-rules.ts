import type { Device, JsonObject, JsonValue, Memory } from '../planner-types.ts';
import { type Condition, conditionsOf } from './memories.ts';
import { isAbout, namesAnyDevice } from './targets.ts';
import { normalizeText, tokenize } from './text-normalizer.ts';

// What an observation calls for: the conditions that people wrote down, and else what every house would do.

export interface Reaction {
  /** Sentences of the grammar; empty: there is nothing to be done by a device. */
  text: string;
  because: string;
  /** Nothing is wrong where there is nothing to do it with. */
  lenient: boolean;
}

interface DefaultRule {
  namePattern: RegExp;
  matches(value: JsonValue): boolean;
  /** `here` is what heats and cools where it was measured. */
  text(here: string): string;
  because(value: JsonValue): string;
}

const above = (limit: number) => (value: JsonValue) => typeof value === 'number' && value > limit;
const below = (limit: number) => (value: JsonValue) => typeof value === 'number' && value < limit;
const isAlarm = (value: JsonValue) =>
  value === true ||
  (typeof value === 'string' && /^(?:alarm|detected|wet|leak|on|yes|true)$/i.test(value)) ||
  (typeof value === 'number' && value >= 1);

/** The dangerous first. */
const defaultRules: readonly DefaultRule[] = [
  {
    namePattern: /^(?:smoke|fire|smoke alarm|smoke detected|fire alarm)$/,
    matches: isAlarm,
    text: () => 'turn on the lights; open the covers; turn off the appliances; turn off the climate',
    because: () => 'Smoke was detected.',
  },
  {
    // A lamp that is switched may be the spark.
    namePattern: /^(?:gas|gas alarm|gas detected|co|carbon monoxide|co alarm|co detected)$/,
    matches: isAlarm,
    text: () => 'close the valves; open the covers',
    because: () => 'Gas was detected.',
  },
  {
    namePattern: /^(?:leak|water leak|leak detected|water detected|flood|wet|water)$/,
    matches: isAlarm,
    text: () => 'close the valves; turn off the appliances',
    because: () => 'Water is leaking.',
  },
  {
    namePattern: /^(?:temperature|temperature c|celsius|temp)$/,
    matches: above(28),
    text: (here) => `make ${here} cool`,
    because: (value) => `It is ${value} °C, above 28 °C.`,
  },
  {
    namePattern: /^(?:temperature|temperature c|celsius|temp)$/,
    matches: below(16),
    text: (here) => `make ${here} warm`,
    because: (value) => `It is ${value} °C, below 16 °C.`,
  },
  {
    namePattern: /^(?:humidity|relative humidity|humidity percent)$/,
    matches: above(70),
    text: (here) => `set ${here} to dry`,
    because: (value) => `The humidity is ${value} %, above 70 %.`,
  },
  {
    namePattern: /^(?:battery|battery percent|battery level)$/,
    matches: below(15),
    text: () => '',
    because: (value) => `The battery is down to ${value} %: somebody has to change it.`,
  },
];

/**
 * All that the measurements call for, danger first. What people wrote down about a measurement takes the place of the
 * usual.
 */
export function reactionsTo(
  data: JsonObject,
  by: Device | null,
  { devices, memories }: { devices: readonly Device[]; memories: readonly Memory[] },
): Reaction[] {
  const concerning = conditionsOf(memories).filter(
    ({ subject }) => by === null || !namesAnyDevice(subject, devices) || isAbout(subject, by),
  );
  const here = by?.room ? `${by.room} climate` : 'climate';
  const own: Reaction[] = [];
  const common: Reaction[][] = defaultRules.map(() => []);
  for (const [key, value] of Object.entries(data)) {
    const name = measurementNameOf(key);
    const conditions = concerning.filter(({ measurement }) => sameWords(measurement, name));
    for (const condition of conditions.filter((one) => isMet(one, value))) {
      own.push({ text: condition.instructions, because: conditionReason(condition, name, value), lenient: false });
    }
    if (conditions.length > 0) continue;
    for (const [place, usual] of defaultRules.entries()) {
      if (!usual.namePattern.test(name) || !usual.matches(value)) continue;
      common[place]?.push({ text: usual.text(here), because: usual.because(value), lenient: true });
    }
  }
  return [...common.flat(), ...own];
}

const sameWords = (one: string, other: string): boolean => tokenize(one).join(' ') === tokenize(other).join(' ');

/** `waterLeak` and `water_leak` are a water leak. */
const measurementNameOf = (key: string): string =>
  normalizeText(key.replace(/([a-z])([A-Z])/g, '$1 $2').replaceAll('_', ' '));

function isMet({ relation, value: limit }: Condition, value: JsonValue): boolean {
  if (relation === 'is') return typeof value === 'string' ? normalizeText(value) === String(limit) : value === limit;
  if (typeof value !== 'number' || typeof limit !== 'number') return false;
  return relation === 'above' ? value > limit : value < limit;
}

const conditionReason = ({ relation, value: limit }: Condition, name: string, value: JsonValue): string =>
  `${name} is ${JSON.stringify(value)}${relation === 'is' ? '' : `, ${relation} ${limit}`}, as a routine has it.`;
