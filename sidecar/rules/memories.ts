import type { Device, Memory } from '../model.ts';
import { type Quality, qualityOf } from './instructions.ts';
import { isAbout, namesSomething } from './targets.ts';
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

/**
 * The number that somebody prefers for this device and quality: a preference about its room or itself comes before one
 * about no place.
 */
export function preferred(
  quality: Quality,
  unit: Unit,
  device: Device,
  all: readonly Device[],
  memories: readonly Memory[],
): number | null {
  let general: number | null = null;
  for (const { kind, subject, content, tags } of memories) {
    if (kind !== 'preference' || !says(quality, [subject, content, ...tags])) continue;
    const number = Number(units[unit].exec(plain(content))?.[1]);
    if (Number.isNaN(number)) continue;
    if (isAbout(subject, device)) return number;
    if (!namesSomething(subject, all)) general ??= number;
  }
  return general;
}

/** Devices that a preference says never to switch: `never turn off the fridge`. */
export function isSpared(be: 'on' | 'off', device: Device, memories: readonly Memory[]): boolean {
  return memories.some(({ kind, subject, content }) => {
    const found = kind === 'preference' && /^never (?:turn|switch) (on|off)(?: (.+))?$/.exec(bare(plain(content)));
    return found ? found[1] === be && isAbout(found[2] === undefined ? subject : found[2], device) : false;
  });
}

const says = (quality: Quality, texts: readonly string[]): boolean =>
  texts.some((text) => wordsOf(text).some((word) => qualityOf(word) === quality));
