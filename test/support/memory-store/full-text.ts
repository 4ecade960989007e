import { toSearchQuery, toSearchText } from '../../../src/domain/full-text.ts';

// As much of PostgreSQL's text search as `domain/full-text.ts` asks for: the configuration 'simple' over words that are
// cut and folded already, and `websearch_to_tsquery`.

/** Longer words are in no index and in no query. */
const MAX_WORD_BYTES = 2_046;

const isIndexed = (word: string): boolean => Buffer.byteLength(word) <= MAX_WORD_BYTES;

interface Operand {
  not: boolean;
  words: string[];
}

/** A disjunction of conjunctions, as `or` binds less than the space between two words. */
type Query = Operand[][];

function parse(text: string): Query {
  const parts = [...toSearchQuery(text).matchAll(/(-?)(?:"([^"]*)"|(\S+))/g)];
  const query: Query = [[]];
  let expectsOperand = true;
  parts.forEach(([part, not = '', phrase, word = ''], index) => {
    // `or` is an operator between two operands, and else a word.
    if (part === 'or' && !expectsOperand && index < parts.length - 1) {
      query.push([]);
      expectsOperand = true;
      return;
    }
    expectsOperand = false;
    const words = (phrase ?? word).split(' ').filter(isIndexed);
    if (words.length > 0) query.at(-1)?.push({ not: not === '-', words });
  });
  return query.filter((operands) => operands.length > 0);
}

/** The text's words with their places, and the tenant as one more word that has none. */
export function matches(text: string, tenantId: string, query: string): boolean {
  const asked = parse(query);
  if (asked.length === 0) return false;
  const words = toSearchText(text).split(' ');
  const tenant = tenantId.replaceAll('-', '');
  const has = ([first = '', ...rest]: string[]): boolean =>
    (first === tenant && rest.length === 0) ||
    words.some((word, at) => isIndexed(word) && word === first && rest.every((next, n) => words[at + n + 1] === next));
  return asked.some((operands) => operands.every(({ not, words }) => has(words) !== not));
}
