import type { Device, Memory } from '../model.ts';
import { type Quality, qualityOf } from './instructions.ts';
import { isAbout } from './targets.ts';
import { bare, plain, wordsOf } from './words.ts';

// What a tenant's memories say to the rules. Their newest word counts; they come newest first.

/** `when humidity is above 65: turn on the bathroom fan` */
export interface Condition {
  measurement: string;
  relation: 'above' | 'below' | 'is';
  value: number | boolean | string;
  /** Sentences of the grammar. */
  call: string;
  subject: string;
}

/** The text of the routine of that name. */
export function routineOf(name: string, memories: readonly Memory[]): string | null {
  const wanted = bare(plain(name));
  const found = memories.find(
    ({ kind, subject, content }) =>
      kind === 'routine' && bare(plain(subject)) === wanted && conditionOf(content) === null,
  );
  return found?.content ?? null;
}

const CONDITION =
  /^(?:when|whenever|if) (.+?) (?:is |are |goes |rises |falls |drops )?(above|over|more than|at least|below|under|less than|at most|is|=) ?(-?\d+(?:\.\d+)?|[a-z]+) ?(?:%|percent|°c?|degrees|celsius|c|ppm|lux|lx)?[,:] ?(?:then )?(.+)$/s;

export function conditionsOf(memories: readonly Memory[]): Condition[] {
  return memories
    .filter(({ kind }) => kind === 'routine' || kind === 'preference')
    .flatMap(({ subject, content }) => {
      const condition = conditionOf(content);
      return condition === null ? [] : [{ ...condition, subject }];
    });
}

function conditionOf(content: string): Omit<Condition, 'subject'> | null {
  const found = CONDITION.exec(plain(content));
  if (found === null) return null;
  const [, measurement = '', said = '', value = '', call = ''] = found;
  const number = Number(value);
  const relation = /above|over|more|least/.test(said) ? 'above' : /below|under|less|most/.test(said) ? 'below' : 'is';
  if (relation !== 'is' && Number.isNaN(number)) return null;
  const word = value === 'true' || value === 'yes' ? true : value === 'false' || value === 'no' ? false : value;
  return { measurement: bare(measurement), relation, value: Number.isNaN(number) ? word : number, call };
}

type Unit = 'celsius' | 'percent' | 'kelvin';
const units: Readonly<Record<Unit, RegExp>> = {
  celsius: /(-?\d+(?:\.\d+)?) ?(?:°c?|degrees?(?: celsius)?|celsius|c)(?![a-z])/,
  percent: /(\d+(?:\.\d+)?) ?(?:%|percent)/,
  kelvin: /(\d+(?:\.\d+)?) ?(?:k|kelvin)(?![a-z])/,
};

const LONGEST_NAME = 200;

/** What somebody prefers. */
export interface Preferences {
  /** The number for this device and quality: one about its room or itself comes before one about no place. */
  number(quality: Quality, unit: Unit, device: Device): number | null;
  /** It is never to be switched so: `never turn off the fridge`. */
  spares(be: 'on' | 'off', device: Device): boolean;
}

/** Each memory is read once, however many devices ask. */
export function preferencesOf(memories: readonly Memory[], devices: readonly Device[]): Preferences {
  const all = memories.filter(({ kind }) => kind === 'preference').map((memory) => preferenceIn(memory, devices));
  return {
    number(quality, unit, device) {
      const saying = all.filter(({ qualities, numbers }) => qualities.has(quality) && numbers[unit] !== null);
      const own = saying.find(({ about }) => about.has(device)) ?? saying.find(({ about }) => about.size === 0);
      return own?.numbers[unit] ?? null;
    },
    spares: (be, device) => all.some(({ never }) => never?.be === be && never.devices.has(device)),
  };
}

function preferenceIn({ subject, content, tags }: Memory, devices: readonly Device[]) {
  const text = plain(content);
  const number = (unit: Unit): number | null => {
    const found = units[unit].exec(text)?.[1];
    return found === undefined ? null : Number(found);
  };
  const about = (said: string) => new Set(devices.filter((device) => isAbout(said.slice(0, LONGEST_NAME), device)));
  const [, be, what = subject] = /^never (?:turn|switch) (on|off)(?: (.+))?$/.exec(bare(text)) ?? [];
  return {
    about: about(subject),
    qualities: new Set([subject, content, ...tags].flatMap((said) => wordsOf(said).map(qualityOf))),
    numbers: { celsius: number('celsius'), percent: number('percent'), kelvin: number('kelvin') },
    never: be === undefined ? null : { be, devices: about(what) },
  };
}
