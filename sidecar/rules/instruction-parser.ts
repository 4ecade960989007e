import { normalizeText, stripFillerWords } from './text-normalizer.ts';

// Parses goals and routines into instructions. The grammar is documented in docs/sidecar.md.

export const qualities = ['warm', 'cool', 'cosy', 'comfortable', 'bright', 'dim', 'dark', 'night', 'away'] as const;
export type Quality = (typeof qualities)[number];

/** The requested effect on the targets of an instruction. */
export type Effect =
  | { be: 'on' | 'off' | 'locked' | 'unlocked' | 'open' | 'closed' | 'armed' | 'disarmed' }
  | { run: 'start' | 'stop' | 'pause' | 'resume' }
  | { celsius: number }
  | { kelvin: number }
  | { percent: number; of: 'brightness' | 'humidity' | 'position' | null }
  /** A number without a unit. */
  | { amount: number }
  | { quality: Quality }
  | { more: 'warm' | 'cool' | 'bright' | 'dark' }
  | { mode: string };

export interface Instruction {
  effect: Effect;
  /** The phrase that names the targets; empty: all devices. */
  target: string;
  /** The other targets of the same verb. */
  otherTargets: readonly string[];
  /** Excluded targets. */
  except: readonly string[];
  /** The instruction starts after all previous ones have succeeded. */
  waitsForPrevious: boolean;
  /** No error if no device matches. */
  optional: boolean;
  /** Ids of the memories whose text it comes from. */
  memoryIds: readonly string[];
}

/** Looks up the text of a routine by its name; null if there is none. `memoryId` is null for a built-in one. */
export type RoutineLookup = (name: string) => { text: string; optional: boolean; memoryId: string | null } | null;

export type ParseResult = { instructions: Instruction[] } | { unclear: string } | { endless: true };

const MAX_DEPTH = 3;
/** Limit for nested routines, whose number grows exponentially with the depth. */
const MAX_SENTENCES = 100;

/** Parses a goal or a routine, sentence by sentence. */
export function parseInstructions(text: string, findRoutine: RoutineLookup): ParseResult {
  let count = 0;
  return parseAtDepth(0, text, (sentence, depth) => {
    count += 1;
    if (count > MAX_SENTENCES) return 'endless';
    return depth < MAX_DEPTH ? findRoutine(sentence) : null;
  });
}

function parseAtDepth(
  depth: number,
  text: string,
  findRoutine: (sentence: string, depth: number) => ReturnType<RoutineLookup> | 'endless',
): ParseResult {
  const instructions: Instruction[] = [];
  for (const { sentence, waitsForPrevious } of splitSentences(normalizeText(text))) {
    const routine = findRoutine(sentence, depth);
    if (routine === 'endless') return { endless: true };
    const parsed = routine === null ? parseClauses(sentence) : parseAtDepth(depth + 1, routine.text, findRoutine);
    if (!('instructions' in parsed)) return parsed;
    for (const [n, one] of parsed.instructions.entries()) {
      instructions.push({
        ...one,
        waitsForPrevious: one.waitsForPrevious || (waitsForPrevious && n === 0),
        optional: one.optional || routine?.optional === true,
        memoryIds: routine == null || routine.memoryId === null ? one.memoryIds : [routine.memoryId, ...one.memoryIds],
      });
    }
  }
  return { instructions };
}

const EXCEPT = / (?:except(?: for)?|but not|apart from|but leave) /;

/** Splits at separators. A sentence after `then` waits for the previous ones. */
function splitSentences(text: string): { sentence: string; waitsForPrevious: boolean }[] {
  return text
    .replace(/,(?=(?:except|but not|apart from|but leave) )/g, ' ')
    .replace(/(?:[ ,;\n]|^)(?:and )?(?:then|after that|afterwards)(?=[ ,]|$)/g, ';>')
    .split(/[;\n]/)
    .map((part) => ({
      sentence: stripFillerWords(part.replace(/^[>, ]+|[, ]+$/g, '')),
      waitsForPrevious: part.startsWith('>'),
    }))
    .filter(({ sentence }) => sentence !== '');
}

function parseClauses(sentence: string): ParseResult {
  const clauses = parseSentence(sentence);
  if (clauses === null) return { unclear: sentence };
  return {
    instructions: clauses.map((clause) => ({
      ...clause,
      ...{ waitsForPrevious: false, optional: false, memoryIds: [] },
    })),
  };
}

type Clause = Pick<Instruction, 'effect' | 'target' | 'otherTargets' | 'except'>;

/** One verb with its targets and exceptions. */
interface VerbPhrase {
  effect: Effect;
  targets: string[];
  except: string[];
}

/**
 * `lock the door and turn off the lamp and the fan`: a part without a verb is another target of the verb before it, or
 * another exception if that verb already has one.
 */
function parseSentence(sentence: string): Clause[] | null {
  const entire = parseVerbPhrase(sentence);
  const parts = sentence.split(/,and |,| and /).filter((part) => part !== '');
  if (parts.length === 1) return entire && expandTargets(entire);
  const verbs: VerbPhrase[] = [];
  for (const part of parts) {
    const verb = parseVerbPhrase(stripFillerWords(part));
    const before = verbs.at(-1);
    if (verb !== null) verbs.push(verb);
    else if (before !== undefined && before.except.length > 0) before.except.push(stripFillerWords(part));
    else if (before !== undefined && !/^-?\d/.test(part)) before.targets.push(stripFillerWords(part));
    else return entire && expandTargets(entire);
  }
  return verbs.flatMap(expandTargets);
}

const expandTargets = ({ effect, targets, except }: VerbPhrase): Clause[] =>
  targets.map((target) => ({ effect, target, otherTargets: targets.filter((other) => other !== target), except }));

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

/** Null if no pattern matches. */
function parseVerbPhrase(text: string): VerbPhrase | null {
  const [phrase = '', ...except] = text.split(EXCEPT);
  for (const [pattern, read] of patterns) {
    const found = pattern.exec(phrase);
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
