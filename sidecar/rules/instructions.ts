import { bare, plain } from './words.ts';

// What the rules understand of a sentence. The grammar stands in docs/sidecar.md, for whoever writes goals and routines.

export const qualities = ['warm', 'cool', 'cosy', 'comfortable', 'bright', 'dim', 'dark', 'night', 'away'] as const;
export type Quality = (typeof qualities)[number];

/** What is to become of whatever the instruction is about. */
export type Wish =
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
  wish: Wish;
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
export type Named = (name: string) => { text: string; lenient: boolean } | null;

export type Understood = { instructions: Instruction[] } | { unclear: string } | { endless: true };

const DEPTH = 3;
/** Routines that name routines that name routines come to any number. */
const MOST_SENTENCES = 100;

/** A goal or a routine, sentence by sentence. */
export function understand(text: string, named: Named): Understood {
  let read = 0;
  return understandAt(0, text, (sentence, depth) => {
    read += 1;
    if (read > MOST_SENTENCES) return 'endless';
    return depth < DEPTH ? named(sentence) : null;
  });
}

function understandAt(
  depth: number,
  text: string,
  named: (sentence: string, depth: number) => ReturnType<Named> | 'endless',
): Understood {
  const instructions: Instruction[] = [];
  for (const { sentence, afterwards } of sentences(plain(text))) {
    const meant = named(sentence, depth);
    if (meant === 'endless') return { endless: true };
    const found = meant === null ? clausesOf(sentence) : understandAt(depth + 1, meant.text, named);
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
function sentences(text: string): { sentence: string; afterwards: boolean }[] {
  return text
    .replace(/,(?=(?:except|but not|apart from|but leave) )/g, ' ')
    .replace(/(?:[ ,;\n]|^)(?:and )?(?:then|after that|afterwards)(?=[ ,]|$)/g, ';>')
    .split(/[;\n]/)
    .map((part) => ({ sentence: bare(part.replace(/^[>, ]+|[, ]+$/g, '')), afterwards: part.startsWith('>') }))
    .filter(({ sentence }) => sentence !== '');
}

function clausesOf(sentence: string): Understood {
  const clauses = understandSentence(sentence);
  if (clauses === null) return { unclear: sentence };
  return { instructions: clauses.map((clause) => ({ ...clause, afterwards: false, lenient: false })) };
}

type Clause = Pick<Instruction, 'wish' | 'target' | 'beside' | 'except'>;

/** What one verb is about, part by part. */
interface Verb {
  wish: Wish;
  targets: string[];
  except: string[];
}

/**
 * `lock the door and turn off the lamp and the fan`: a part without a verb belongs to the verb before it, and to what is
 * left out where that was begun.
 */
function understandSentence(sentence: string): Clause[] | null {
  const whole = clauseOf(sentence);
  const parts = sentence.split(/,and |,| and /).filter((part) => part !== '');
  if (parts.length === 1) return whole && clausesFor(whole);
  const verbs: Verb[] = [];
  for (const part of parts) {
    const verb = clauseOf(bare(part));
    const before = verbs.at(-1);
    if (verb !== null) verbs.push(verb);
    else if (before !== undefined && before.except.length > 0) before.except.push(bare(part));
    else if (before !== undefined && !/^-?\d/.test(part)) before.targets.push(bare(part));
    else return whole && clausesFor(whole);
  }
  return verbs.flatMap(clausesFor);
}

const clausesFor = ({ wish, targets, except }: Verb): Clause[] =>
  targets.map((target) => ({ wish, target, beside: targets.filter((other) => other !== target), except }));

const NUMBER = '(-?\\d+(?:\\.\\d+)?)';
const UNIT = '(%|percent|°c?|degrees?(?: celsius)?|celsius|c|°f|degrees fahrenheit|fahrenheit|f|k|kelvin)?';

type Reader = (found: RegExpExecArray) => { wish: Wish; target: string } | null;
const patterns: readonly (readonly [RegExp, Reader])[] = [
  [
    /^(?:turn|switch|put) (on|off) (.+)$/,
    ([, be, target]) => ({ wish: { be: be as 'on' | 'off' }, target: target ?? '' }),
  ],
  [
    /^(?:set|put|switch|turn|change) (.+?) (?:to|into) ([a-z_ ]+?)(?: mode)?$/,
    ([, target, word]) => ofWord(target ?? '', word ?? ''),
  ],
  [
    /^(?:turn |switch |put |make sure |leave |keep )?(.+?) (?:is |are )?(on|off)$/,
    ([, target, be]) => ({ wish: { be: be as 'on' | 'off' }, target: target ?? '' }),
  ],
  [
    /^(un)?lock(?: up)?(?: (.+))?$/,
    ([, un, target]) => ({ wish: { be: un ? 'unlocked' : 'locked' }, target: target ?? '' }),
  ],
  [/^(dis)?arm(?: (.+))?$/, ([, dis, target]) => ({ wish: { be: dis ? 'disarmed' : 'armed' }, target: target ?? '' })],
  [
    new RegExp(`^(?:heat|cool|warm)(?: up| down)? (.+?) (?:to|at) ${NUMBER} ?${UNIT}$`),
    ([, target, amount, unit]) => ofAmount(target ?? '', Number(amount), unit || 'celsius'),
  ],
  [
    new RegExp(
      `^(?:dim|brighten|lower|raise|open|close|set|put|turn|bring|change|adjust|keep)(?: up| down)? (.+?) (?:to|at|on) ${NUMBER} ?${UNIT}$`,
    ),
    ([, target, amount, unit]) => ofAmount(target ?? '', Number(amount), unit ?? ''),
  ],
  [
    new RegExp(`^${NUMBER} ?${UNIT}(?: (?:in|for|on) (.+))?$`),
    ([, amount, unit, target]) => ofAmount(target ?? '', Number(amount), unit ?? ''),
  ],
  [/^(?:open|raise)(?: (.+))?$/, ([, target]) => ({ wish: { be: 'open' }, target: target ?? '' })],
  [/^(?:close|shut|lower)(?: (.+))?$/, ([, target]) => ({ wish: { be: 'closed' }, target: target ?? '' })],
  [
    /^its? (?:is )?too (cold|chilly|warm|hot|dark|dim|bright)(?: (?:in|for) (.+))?$/,
    ([, now, target]) => tooMuch(now ?? '', target ?? ''),
  ],
  [
    /^(?:make|get|keep|have|let) (?:it |everything )?(.*?) ?(?:be )?([a-z]+)(?: (?:in|for) (.+))?$/,
    ([, target, word, place]) => ofQuality(word ?? '', `${target ?? ''} ${place ?? ''}`.trim()),
  ],
  [/^(?:heat|warm)(?: up)?(?: (.+))?$/, ([, target]) => ({ wish: { quality: 'warm' }, target: target ?? '' })],
  [/^cool(?: down)?(?: (.+))?$/, ([, target]) => ({ wish: { quality: 'cool' }, target: target ?? '' })],
  [/^dim(?: (.+))?$/, ([, target]) => ({ wish: { quality: 'dim' }, target: target ?? '' })],
  [/^brighten(?: up)?(?: (.+))?$/, ([, target]) => ({ wish: { more: 'bright' }, target: target ?? '' })],
  [
    /^(start|stop|pause|resume) (.+)$/,
    ([, run, target]) => ({ wish: { run: run as 'start' | 'stop' | 'pause' | 'resume' }, target: target ?? '' }),
  ],
];

/** One verb with what it is about, or null where there is none. */
function clauseOf(text: string): Verb | null {
  const [said = '', ...except] = text.split(EXCEPT);
  for (const [pattern, read] of patterns) {
    const found = pattern.exec(said);
    const clause = found && read(found);
    if (clause) return { wish: clause.wish, targets: [bare(clause.target)], except: except.map(bare) };
  }
  return null;
}

function ofAmount(target: string, amount: number, unit: string): { wish: Wish; target: string } | null {
  const of = /\b(brightness|humidity|position|temperature)\b(?: (?:of|in) )?/.exec(target);
  const about =
    of === null
      ? target
      : target
          .replace(of[0], '')
          .replace(/^(?:of|in) /, '')
          .trim();
  if (/^(?:k|kelvin)$/.test(unit)) return { wish: { kelvin: amount }, target: about };
  if (/^(?:°f|degrees fahrenheit|fahrenheit|f)$/.test(unit)) {
    return { wish: { celsius: Math.round(((amount - 32) / 1.8) * 2) / 2 }, target: about };
  }
  if (/^(?:%|percent)$/.test(unit) || (of !== null && of[1] !== 'temperature')) {
    const quantity = of?.[1];
    return { wish: { percent: amount, of: isQuantity(quantity) ? quantity : null }, target: about };
  }
  if (unit !== '' || of?.[1] === 'temperature' || /\b(?:thermostat|heating|heater|climate|radiator)s?\b/.test(about)) {
    return { wish: { celsius: amount }, target: about };
  }
  return { wish: { amount }, target: about };
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

function ofQuality(word: string, target: string): { wish: Wish; target: string } | null {
  const more = comparatives[word];
  if (more !== undefined) return { wish: { more }, target };
  const quality = qualityOf(word);
  return quality && { wish: { quality }, target };
}

function tooMuch(now: string, target: string): { wish: Wish; target: string } {
  const more = /cold|chilly/.test(now)
    ? 'warm'
    : /warm|hot/.test(now)
      ? 'cool'
      : /dark|dim/.test(now)
        ? 'bright'
        : 'dark';
  return { wish: { more }, target };
}

const states: Readonly<Record<string, Wish>> = {
  ...{ on: { be: 'on' }, off: { be: 'off' }, open: { be: 'open' }, closed: { be: 'closed' }, locked: { be: 'locked' } },
} as const;

function ofWord(target: string, word: string): { wish: Wish; target: string } | null {
  const state = states[word];
  if (state !== undefined) return { wish: state, target };
  const quality = ofQuality(word, target);
  return quality ?? { wish: { mode: word.replaceAll(' ', '_') }, target };
}
