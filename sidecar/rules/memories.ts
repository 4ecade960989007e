import type { Memory, PlannerDevice } from '../planner-types.ts';
import { type Quality, qualityOf } from './instruction-parser.ts';
import { isAbout } from './targets.ts';
import { normalizeText, stripFillerWords, tokenize } from './text-normalizer.ts';

// Reads routines, conditions and preferences from a tenant's memories. Memories are sorted newest first; the newest one
// wins.

/** `when humidity is above 65: turn on the bathroom fan` */
export interface Condition {
  measurement: string;
  relation: 'above' | 'below' | 'is';
  value: number | boolean | string;
  /** Text in the grammar of the rules. */
  instructions: string;
  subject: string;
  memoryId: string;
}

/** The routine with this name. */
export function findRoutine(name: string, memories: readonly Memory[]): Memory | null {
  const normalizedName = stripFillerWords(normalizeText(name));
  const found = memories.find(
    ({ kind, subject, content }) =>
      kind === 'routine' &&
      stripFillerWords(normalizeText(subject)) === normalizedName &&
      parseCondition(content) === null,
  );
  return found ?? null;
}

const CONDITION =
  /^(?:when|whenever|if) (.+?) (?:is |are |goes |rises |falls |drops )?(above|over|more than|at least|below|under|less than|at most|is|=) ?(-?\d+(?:\.\d+)?|[a-z]+) ?(?:%|percent|°c?|degrees|celsius|c|ppm|lux|lx)?[,:] ?(?:then )?(.+)$/s;

export function conditionsOf(memories: readonly Memory[]): Condition[] {
  return memories
    .filter(({ kind }) => kind === 'routine' || kind === 'preference')
    .flatMap(({ id: memoryId, subject, content }) => {
      const condition = parseCondition(content);
      return condition === null ? [] : [{ ...condition, subject, memoryId }];
    });
}

function parseCondition(content: string): Omit<Condition, 'subject' | 'memoryId'> | null {
  const found = CONDITION.exec(normalizeText(content));
  if (found === null) return null;
  const [, measurement = '', comparison = '', value = '', instructions = ''] = found;
  const number = Number(value);
  const relation = /above|over|more|least/.test(comparison)
    ? 'above'
    : /below|under|less|most/.test(comparison)
      ? 'below'
      : 'is';
  if (relation !== 'is' && Number.isNaN(number)) return null;
  const word = value === 'true' || value === 'yes' ? true : value === 'false' || value === 'no' ? false : value;
  return {
    measurement: stripFillerWords(measurement),
    relation,
    value: Number.isNaN(number) ? word : number,
    instructions,
  };
}

type Unit = 'celsius' | 'percent' | 'kelvin';
const units: Readonly<Record<Unit, RegExp>> = {
  celsius: /(-?\d+(?:\.\d+)?) ?(?:°c?|degrees?(?: celsius)?|celsius|c)(?![a-z])/,
  percent: /(\d+(?:\.\d+)?) ?(?:%|percent)/,
  kelvin: /(\d+(?:\.\d+)?) ?(?:k|kelvin)(?![a-z])/,
};

const MAX_NAME = 200;

/** Preferences of the tenant. */
export interface Preferences {
  /** The number for this device and quality. A preference about the device or its room overrides a general one. */
  valueFor(quality: Quality, unit: Unit, device: PlannerDevice): number | null;
  /** True if a preference excludes the device from being switched on or off: `never turn off the fridge`. */
  isExcluded(be: 'on' | 'off', device: PlannerDevice): boolean;
  /** Ids of the memories that decided an answer since the last call. */
  takeUsed(): readonly string[];
}

/** Parses each memory once for all devices. */
export function preferencesOf(memories: readonly Memory[], devices: readonly PlannerDevice[]): Preferences {
  const all = memories.filter(({ kind }) => kind === 'preference').map((memory) => parsePreference(memory, devices));
  const used = new Set<string>();
  const use = <One extends { id: string }>(one: One | undefined): One | undefined => {
    if (one !== undefined) used.add(one.id);
    return one;
  };
  return {
    valueFor(quality, unit, device) {
      const matching = all.filter(({ qualities, numbers }) => qualities.has(quality) && numbers[unit] !== null);
      const best = matching.find(({ about }) => about.has(device)) ?? matching.find(({ about }) => about.size === 0);
      return use(best)?.numbers[unit] ?? null;
    },
    isExcluded: (be, device) =>
      use(all.find(({ never }) => never?.be === be && never.devices.has(device))) !== undefined,
    takeUsed() {
      const ids = [...used];
      used.clear();
      return ids;
    },
  };
}

function parsePreference({ id, subject, content, tags }: Memory, devices: readonly PlannerDevice[]) {
  const text = normalizeText(content);
  const number = (unit: Unit): number | null => {
    const found = units[unit].exec(text)?.[1];
    return found === undefined ? null : Number(found);
  };
  const about = (name: string) => new Set(devices.filter((device) => isAbout(name.slice(0, MAX_NAME), device)));
  const [, be, target = subject] = /^never (?:turn|switch) (on|off)(?: (.+))?$/.exec(stripFillerWords(text)) ?? [];
  return {
    id,
    about: about(subject),
    qualities: new Set([subject, content, ...tags].flatMap((part) => tokenize(part).map(qualityOf))),
    numbers: { celsius: number('celsius'), percent: number('percent'), kelvin: number('kelvin') },
    never: be === undefined ? null : { be, devices: about(target) },
  };
}
