import type { Device, JsonObject, JsonValue, Memory } from '../model.ts';
import { type Condition, conditionsOf } from './memories.ts';
import { isAbout, namesSomething } from './targets.ts';
import { plain, wordsOf } from './words.ts';

// What an observation calls for: the conditions that people wrote down, and else what every house would do.

export interface Call {
  /** Sentences of the grammar; empty: there is nothing to be done by a device. */
  text: string;
  because: string;
  /** Nothing is wrong where there is nothing to do it with. */
  lenient: boolean;
}

interface Usual {
  names: RegExp;
  calls(value: JsonValue): boolean;
  /** `here` is what heats and cools where it was measured. */
  text(here: string): string;
  because(value: JsonValue): string;
}

const above = (limit: number) => (value: JsonValue) => typeof value === 'number' && value > limit;
const below = (limit: number) => (value: JsonValue) => typeof value === 'number' && value < limit;
const alarmed = (value: JsonValue) =>
  value === true ||
  (typeof value === 'string' && /^(?:alarm|detected|wet|leak|on|yes|true)$/i.test(value)) ||
  (typeof value === 'number' && value >= 1);

/** The dangerous first. */
const usuals: readonly Usual[] = [
  {
    names: /^(?:smoke|fire|smoke alarm|smoke detected|fire alarm)$/,
    calls: alarmed,
    text: () => 'turn on the lights; open the covers; turn off the appliances; turn off the climate',
    because: () => 'Smoke was detected.',
  },
  {
    // A lamp that is switched may be the spark.
    names: /^(?:gas|gas alarm|gas detected|co|carbon monoxide|co alarm|co detected)$/,
    calls: alarmed,
    text: () => 'close the valves; open the covers',
    because: () => 'Gas was detected.',
  },
  {
    names: /^(?:leak|water leak|leak detected|water detected|flood|wet|water)$/,
    calls: alarmed,
    text: () => 'close the valves; turn off the appliances',
    because: () => 'Water is leaking.',
  },
  {
    names: /^(?:temperature|temperature c|celsius|temp)$/,
    calls: above(28),
    text: (here) => `make ${here} cool`,
    because: (value) => `It is ${value} °C, above 28 °C.`,
  },
  {
    names: /^(?:temperature|temperature c|celsius|temp)$/,
    calls: below(16),
    text: (here) => `make ${here} warm`,
    because: (value) => `It is ${value} °C, below 16 °C.`,
  },
  {
    names: /^(?:humidity|relative humidity|humidity percent)$/,
    calls: above(70),
    text: (here) => `set ${here} to dry`,
    because: (value) => `The humidity is ${value} %, above 70 %.`,
  },
  {
    names: /^(?:battery|battery percent|battery level)$/,
    calls: below(15),
    text: () => '',
    because: (value) => `The battery is down to ${value} %: somebody has to change it.`,
  },
];

/**
 * All that the measurements call for, danger first. What people wrote down about a measurement takes the place of the
 * usual.
 */
export function callsOf(
  data: JsonObject,
  by: Device | null,
  { devices, memories }: { devices: readonly Device[]; memories: readonly Memory[] },
): Call[] {
  const concerning = conditionsOf(memories).filter(
    ({ subject }) => by === null || !namesSomething(subject, devices) || isAbout(subject, by),
  );
  const here = by?.room ? `${by.room} climate` : 'climate';
  const own: Call[] = [];
  const common: Call[][] = usuals.map(() => []);
  for (const [key, value] of Object.entries(data)) {
    const name = measured(key);
    const conditions = concerning.filter(({ measurement }) => sameWords(measurement, name));
    for (const condition of conditions.filter((one) => holds(one, value))) {
      own.push({ text: condition.call, because: told(condition, name, value), lenient: false });
    }
    if (conditions.length > 0) continue;
    for (const [place, usual] of usuals.entries()) {
      if (!usual.names.test(name) || !usual.calls(value)) continue;
      common[place]?.push({ text: usual.text(here), because: usual.because(value), lenient: true });
    }
  }
  return [...common.flat(), ...own];
}

const sameWords = (one: string, other: string): boolean => wordsOf(one).join(' ') === wordsOf(other).join(' ');

/** `waterLeak` and `water_leak` are a water leak. */
const measured = (key: string): string => plain(key.replace(/([a-z])([A-Z])/g, '$1 $2').replaceAll('_', ' '));

function holds({ relation, value: limit }: Condition, value: JsonValue): boolean {
  if (relation === 'is') return typeof value === 'string' ? plain(value) === String(limit) : value === limit;
  if (typeof value !== 'number' || typeof limit !== 'number') return false;
  return relation === 'above' ? value > limit : value < limit;
}

const told = ({ relation, value: limit }: Condition, name: string, value: JsonValue): string =>
  `${name} is ${JSON.stringify(value)}${relation === 'is' ? '' : `, ${relation} ${limit}`}, as a routine has it.`;
