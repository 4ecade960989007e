import type { JsonObject, JsonValue, Memory, PlannerDevice } from '../planner-types.ts';
import { type Condition, conditionsOf } from './memories.ts';
import { isAbout, namesAnyDevice } from './targets.ts';
import { normalizeText, tokenize } from './text-normalizer.ts';

// Reactions to observations: the tenant's conditions in memory, otherwise default rules.

export interface Reaction {
  /** Text in the grammar of the rules; empty: no device can do anything about it. */
  text: string;
  because: string;
  /** No error if no device matches. */
  optional: boolean;
  /** Ids of the memories with its condition. */
  memoryIds: readonly string[];
}

interface DefaultRule {
  namePattern: RegExp;
  matches(value: JsonValue): boolean;
  /** `here` names the climate devices of the room of the measurement. */
  text(here: string): string;
  because(value: JsonValue): string;
}

const above = (limit: number) => (value: JsonValue) => typeof value === 'number' && value > limit;
const below = (limit: number) => (value: JsonValue) => typeof value === 'number' && value < limit;
const isAlarm = (value: JsonValue) =>
  value === true ||
  (typeof value === 'string' && /^(?:alarm|detected|wet|leak|on|yes|true)$/i.test(value)) ||
  (typeof value === 'number' && value >= 1);

/** Dangers first. */
const defaultRules: readonly DefaultRule[] = [
  {
    namePattern: /^(?:smoke|fire|smoke alarm|smoke detected|fire alarm)$/,
    matches: isAlarm,
    text: () => 'turn on the lights; open the covers; turn off the appliances; turn off the climate',
    because: () => 'Smoke was detected.',
  },
  {
    // Switches no lamps: the spark could ignite the gas.
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
    because: (value) => `The battery is at ${value} %. Replace it.`,
  },
];

/**
 * The reactions to all measurements, dangers first. Conditions in memory replace the default rules for their
 * measurement.
 */
export function reactionsTo(
  data: JsonObject,
  by: PlannerDevice | null,
  { devices, memories }: { devices: readonly PlannerDevice[]; memories: readonly Memory[] },
): Reaction[] {
  const relevant = conditionsOf(memories).filter(
    ({ subject }) => by === null || !namesAnyDevice(subject, devices) || isAbout(subject, by),
  );
  const here = by?.room ? `${by.room} climate` : 'climate';
  const fromConditions: Reaction[] = [];
  const fromDefaults: Reaction[][] = defaultRules.map(() => []);
  for (const [key, value] of Object.entries(data)) {
    const name = measurementNameOf(key);
    const conditions = relevant.filter(({ measurement }) => sameWords(measurement, name));
    for (const condition of conditions.filter((one) => isMet(one, value))) {
      const because = conditionReason(condition, name, value);
      const memoryIds = [condition.memoryId];
      fromConditions.push({ text: condition.instructions, because, optional: false, memoryIds });
    }
    if (conditions.length > 0) continue;
    for (const [index, rule] of defaultRules.entries()) {
      if (!rule.namePattern.test(name) || !rule.matches(value)) continue;
      const because = rule.because(value);
      fromDefaults[index]?.push({ text: rule.text(here), because, optional: true, memoryIds: [] });
    }
  }
  return [...fromDefaults.flat(), ...fromConditions];
}

const sameWords = (one: string, other: string): boolean => tokenize(one).join(' ') === tokenize(other).join(' ');

/** `waterLeak` and `water_leak` → `water leak`. */
const measurementNameOf = (key: string): string =>
  normalizeText(key.replace(/([a-z])([A-Z])/g, '$1 $2').replaceAll('_', ' '));

function isMet({ relation, value: limit }: Condition, value: JsonValue): boolean {
  if (relation === 'is') return typeof value === 'string' ? normalizeText(value) === String(limit) : value === limit;
  if (typeof value !== 'number' || typeof limit !== 'number') return false;
  return relation === 'above' ? value > limit : value < limit;
}

const conditionReason = ({ relation, value: limit }: Condition, name: string, value: JsonValue): string =>
  `${name} is ${JSON.stringify(value)}${relation === 'is' ? '' : `, ${relation} ${limit}`} (condition of a routine).`;
