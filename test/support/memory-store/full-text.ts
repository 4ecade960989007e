import { toSearchQuery, toSearchText } from '../../../src/domain/full-text.ts';

// The part of PostgreSQL's text search that `domain/full-text.ts` uses: the configuration 'simple' over text that is
// already split and folded, and `websearch_to_tsquery`.

/** Longer lexemes are neither indexed nor searched. */
const MAX_WORD_BYTES = 2_046;

const isIndexed = (word: string): boolean => Buffer.byteLength(word) <= MAX_WORD_BYTES;

interface Operand {
  not: boolean;
  words: string[];
}

/** A disjunction of conjunctions, as `or` has a lower precedence than the space between two operands. */
type Query = Operand[][];

function parse(text: string): Query {
  const parts = [...toSearchQuery(text).matchAll(/(-?)(?:"([^"]*)"|(\S+))/g)];
  const query: Query = [[]];
  let expectsOperand = true;
  parts.forEach(([part, not = '', phrase, word = ''], index) => {
    // `or` is an operator between two operands, otherwise an operand.
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

/** The text's lexemes with their positions, and the tenant id as one more lexeme without a position. */
export function matches(text: string, tenantId: string, query: string): boolean {
  const parsed = parse(query);
  if (parsed.length === 0) return false;
  const words = toSearchText(text).split(' ');
  const tenant = tenantId.replaceAll('-', '');
  const has = ([first = '', ...rest]: string[]): boolean =>
    (first === tenant && rest.length === 0) ||
    words.some((word, at) => isIndexed(word) && word === first && rest.every((next, n) => words[at + n + 1] === next));
  return parsed.some((operands) => operands.every(({ not, words }) => has(words) !== not));
}
