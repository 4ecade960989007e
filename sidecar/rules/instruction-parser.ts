import { normalizeText, stripFillerWords } from './text-normalizer.ts';

// What the rules understand of a sentence. The grammar stands in docs/sidecar.md, for whoever writes goals and routines.

export const qualities = ['warm', 'cool', 'cosy', 'comfortable', 'bright', 'dim', 'dark', 'night', 'away'] as const;
export type Quality = (typeof qualities)[number];

/** What is to become of whatever the instruction is about. */
export type Effect =
  | { be: 'on' | 'off' | 'locked' | 'unlocked' | 'open' | 'closed' | 'armed' | 'disarmed' }
  | { run: 'start' | 'stop' | 'pause' | 'resume' }
  | { celsius: number }
  | { kelvin: number }
  | { percent: number; of: 'brightness' | 'humidity' | 'position' | null }
  /** Without a unit. */
  | { amount: number }
  | { quality: Quality }
  | { more: 'warm' | 'cool' | 'bright' | 'dark' }
  | { mode: string };

export interface Instruction {
  effect: Effect;
  /** The words that say what it is about; empty: whatever there is. */
  target: string;
  /** What else the same verb is about. */
  beside: readonly string[];
  /** Left out of it. */
  except: readonly string[];
  /** It waits for all before it. */
  afterwards: boolean;
  /** Nothing is wrong where there is nothing to do it with. */
  lenient: boolean;
}

/** Sentences that are no instruction of their own but stand for others: null where a name stands for none. */
export type RoutineLookup = (name: string) => { text: string; lenient: boolean } | null;

export type ParseResult = { instructions: Instruction[] } | { unclear: string } | { endless: true };

const MAX_DEPTH = 3;
/** Routines that name routines that name routines come to any number. */
const MAX_SENTENCES = 100;

/** A goal or a routine, sentence by sentence. */
export function parseInstructions(text: string, named: RoutineLookup): ParseResult {
  let read = 0;
  return parseAtDepth(0, text, (sentence, depth) => {
    read += 1;
    if (read > MAX_SENTENCES) return 'endless';
    return depth < MAX_DEPTH ? named(sentence) : null;
  });
}

function parseAtDepth(
  depth: number,
  text: string,
  named: (sentence: string, depth: number) => ReturnType<RoutineLookup> | 'endless',
): ParseResult {
  const instructions: Instruction[] = [];
  for (const { sentence, afterwards } of splitSentences(normalizeText(text))) {
    const meant = named(sentence, depth);
    if (meant === 'endless') return { endless: true };
    const found = meant === null ? parseClauses(sentence) : parseAtDepth(depth + 1, meant.text, named);
    if (!('instructions' in found)) return found;
    for (const [n, one] of found.instructions.entries()) {
      instructions.push({
        ...one,
        afterwards: one.afterwards || (afterwards && n === 0),
        lenient: one.lenient || meant?.lenient === true,
      });
    }
  }
  return { instructions };
}

const EXCEPT = / (?:except(?: for)?|but not|apart from|but leave) /;

/** Split where one thing ends and the next begins; `then` makes the next wait. */
function splitSentences(text: string): { sentence: string; afterwards: boolean }[] {
  return text
    .replace(/,(?=(?:except|but not|apart from|but leave) )/g, ' ')
    .replace(/(?:[ ,;\n]|^)(?:and )?(?:then|after that|afterwards)(?=[ ,]|$)/g, ';>')
    .split(/[;\n]/)
    .map((part) => ({
      sentence: stripFillerWords(part.replace(/^[>, ]+|[, ]+$/g, '')),
      afterwards: part.startsWith('>'),
    }))
    .filter(({ sentence }) => sentence !== '');
}

function parseClauses(sentence: string): ParseResult {
  const clauses = parseSentence(sentence);
  if (clauses === null) return { unclear: sentence };
  return { instructions: clauses.map((clause) => ({ ...clause, afterwards: false, lenient: false })) };
}

type Clause = Pick<Instruction, 'effect' | 'target' | 'beside' | 'except'>;

/** What one verb is about, part by part. */
interface VerbPhrase {
  effect: Effect;
  targets: string[];
  except: string[];
}

/**
 * `lock the door and turn off the lamp and the fan`: a part without a verb belongs to the verb before it, and to what is
 * left out where that was begun.
 */
function parseSentence(sentence: string): Clause[] | null {
  const whole = parseVerbPhrase(sentence);
  const parts = sentence.split(/,and |,| and /).filter((part) => part !== '');
  if (parts.length === 1) return whole && expandTargets(whole);
  const verbs: VerbPhrase[] = [];
  for (const part of parts) {
    const verb = parseVerbPhrase(stripFillerWords(part));
    const before = verbs.at(-1);
    if (verb !== null) verbs.push(verb);
    else if (before !== undefined && before.except.length > 0) before.except.push(stripFillerWords(part));
    else if (before !== undefined && !/^-?\d/.test(part)) before.targets.push(stripFillerWords(part));
    else return whole && expandTargets(whole);
  }
  return verbs.flatMap(expandTargets);
}

const expandTargets = ({ effect, targets, except }: VerbPhrase): Clause[] =>
  targets.map((target) => ({ effect, target, beside: targets.filter((other) => other !== target), except }));

const NUMBER = '(-?\\d+(?:\\.\\d+)?)';
const UNIT = '(%|percent|°c?|degrees?(?: celsius)?|celsius|c|°f|degrees fahrenheit|fahrenheit|f|k|kelvin)?';

type PatternReader = (found: RegExpExecArray) => { effect: Effect; target: string } | null;
const patterns: readonly (readonly [RegExp, PatternReader])[] = [
  [
    /^(?:turn|switch|put) (on|off) (.+)$/,
    ([, be, target]) => ({ effect: { be: be as 'on' | 'off' }, target: target ?? '' }),
  ],
  [
    /^(?:set|put|switch|turn|change) (.+?) (?:to|into) ([a-z_ ]+?)(?: mode)?$/,
    ([, target, word]) => wordClause(target ?? '', word ?? ''),
  ],
  [
    /^(?:turn |switch |put |make sure |leave |keep )?(.+?) (?:is |are )?(on|off)$/,
    ([, target, be]) => ({ effect: { be: be as 'on' | 'off' }, target: target ?? '' }),
  ],
  [
    /^(un)?lock(?: up)?(?: (.+))?$/,
    ([, un, target]) => ({ effect: { be: un ? 'unlocked' : 'locked' }, target: target ?? '' }),
  ],
  [
    /^(dis)?arm(?: (.+))?$/,
    ([, dis, target]) => ({ effect: { be: dis ? 'disarmed' : 'armed' }, target: target ?? '' }),
  ],
  [
    new RegExp(`^(?:heat|cool|warm)(?: up| down)? (.+?) (?:to|at) ${NUMBER} ?${UNIT}$`),
    ([, target, amount, unit]) => amountClause(target ?? '', Number(amount), unit || 'celsius'),
  ],
  [
    new RegExp(
      `^(?:dim|brighten|lower|raise|open|close|set|put|turn|bring|change|adjust|keep)(?: up| down)? (.+?) (?:to|at|on) ${NUMBER} ?${UNIT}$`,
    ),
    ([, target, amount, unit]) => amountClause(target ?? '', Number(amount), unit ?? ''),
  ],
  [
    new RegExp(`^${NUMBER} ?${UNIT}(?: (?:in|for|on) (.+))?$`),
    ([, amount, unit, target]) => amountClause(target ?? '', Number(amount), unit ?? ''),
  ],
  [/^(?:open|raise)(?: (.+))?$/, ([, target]) => ({ effect: { be: 'open' }, target: target ?? '' })],
  [/^(?:close|shut|lower)(?: (.+))?$/, ([, target]) => ({ effect: { be: 'closed' }, target: target ?? '' })],
  [
    /^its? (?:is )?too (cold|chilly|warm|hot|dark|dim|bright)(?: (?:in|for) (.+))?$/,
    ([, now, target]) => correctionClause(now ?? '', target ?? ''),
  ],
  [
    /^(?:make|get|keep|have|let) (?:it |everything )?(.*?) ?(?:be )?([a-z]+)(?: (?:in|for) (.+))?$/,
    ([, target, word, place]) => qualityClause(word ?? '', `${target ?? ''} ${place ?? ''}`.trim()),
  ],
  [/^(?:heat|warm)(?: up)?(?: (.+))?$/, ([, target]) => ({ effect: { quality: 'warm' }, target: target ?? '' })],
  [/^cool(?: down)?(?: (.+))?$/, ([, target]) => ({ effect: { quality: 'cool' }, target: target ?? '' })],
  [/^dim(?: (.+))?$/, ([, target]) => ({ effect: { quality: 'dim' }, target: target ?? '' })],
  [/^brighten(?: up)?(?: (.+))?$/, ([, target]) => ({ effect: { more: 'bright' }, target: target ?? '' })],
  [
    /^(start|stop|pause|resume) (.+)$/,
    ([, run, target]) => ({ effect: { run: run as 'start' | 'stop' | 'pause' | 'resume' }, target: target ?? '' }),
  ],
];

/** One verb with what it is about, or null where there is none. */
function parseVerbPhrase(text: string): VerbPhrase | null {
  const [said = '', ...except] = text.split(EXCEPT);
  for (const [pattern, read] of patterns) {
    const found = pattern.exec(said);
    const clause = found && read(found);
    if (clause)
      return {
        effect: clause.effect,
        targets: [stripFillerWords(clause.target)],
        except: except.map(stripFillerWords),
      };
  }
  return null;
}

function amountClause(target: string, amount: number, unit: string): { effect: Effect; target: string } | null {
  const of = /\b(brightness|humidity|position|temperature)\b(?: (?:of|in) )?/.exec(target);
  const about =
    of === null
      ? target
      : target
          .replace(of[0], '')
          .replace(/^(?:of|in) /, '')
          .trim();
  if (/^(?:k|kelvin)$/.test(unit)) return { effect: { kelvin: amount }, target: about };
  if (/^(?:°f|degrees fahrenheit|fahrenheit|f)$/.test(unit)) {
    return { effect: { celsius: Math.round(((amount - 32) / 1.8) * 2) / 2 }, target: about };
  }
  if (/^(?:%|percent)$/.test(unit) || (of !== null && of[1] !== 'temperature')) {
    const quantity = of?.[1];
    return { effect: { percent: amount, of: isQuantity(quantity) ? quantity : null }, target: about };
  }
  if (unit !== '' || of?.[1] === 'temperature' || /\b(?:thermostat|heating|heater|climate|radiator)s?\b/.test(about)) {
    return { effect: { celsius: amount }, target: about };
  }
  return { effect: { amount }, target: about };
}

const isQuantity = (text: string | undefined): text is 'brightness' | 'humidity' | 'position' =>
  text === 'brightness' || text === 'humidity' || text === 'position';

const synonyms: Readonly<Record<string, Quality>> = {
  ...{
    hot: 'warm',
    toasty: 'warm',
    cold: 'cool',
    chilly: 'cool',
    fresh: 'cool',
    cozy: 'cosy',
    pleasant: 'comfortable',
  },
  ...{ light: 'bright', dimmed: 'dim', dusky: 'dim', eco: 'away' },
};
const comparatives: Readonly<Record<string, 'warm' | 'cool' | 'bright' | 'dark'>> = {
  ...{ warmer: 'warm', hotter: 'warm', cooler: 'cool', colder: 'cool', brighter: 'bright', lighter: 'bright' },
  ...{ darker: 'dark', dimmer: 'dark' },
};

export const qualityOf = (word: string): Quality | null =>
  qualities.find((quality) => quality === word) ?? synonyms[word] ?? null;

function qualityClause(word: string, target: string): { effect: Effect; target: string } | null {
  const more = comparatives[word];
  if (more !== undefined) return { effect: { more }, target };
  const quality = qualityOf(word);
  return quality && { effect: { quality }, target };
}

function correctionClause(now: string, target: string): { effect: Effect; target: string } {
  const more = /cold|chilly/.test(now)
    ? 'warm'
    : /warm|hot/.test(now)
      ? 'cool'
      : /dark|dim/.test(now)
        ? 'bright'
        : 'dark';
  return { effect: { more }, target };
}

const stateEffects: Readonly<Record<string, Effect>> = {
  ...{ on: { be: 'on' }, off: { be: 'off' }, open: { be: 'open' }, closed: { be: 'closed' }, locked: { be: 'locked' } },
} as const;

function wordClause(target: string, word: string): { effect: Effect; target: string } | null {
  const state = stateEffects[word];
  if (state !== undefined) return { effect: state, target };
  const quality = qualityClause(word, target);
  return quality ?? { effect: { mode: word.replaceAll(' ', '_') }, target };
}
