// Tokenizer of the full-text search. Stored texts and queries are split and case-folded the same way here, so that
// results do not depend on the database's locale. PostgreSQL's text search provides the index and the query logic.

/** Scripts without spaces between tokens: each character is a token. */
const UNSPACED =
  '[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]';
const LETTERS = '[\\p{L}\\p{M}\\p{N}]';
const TOKENS = new RegExp(`[${UNSPACED}&&${LETTERS}]\\p{M}*|[${LETTERS}--${UNSPACED}]+`, 'gv');
/** Parts of a websearch query: a quoted phrase or a single term, each optionally negated with a minus. */
const PARTS = /(-?)(?:"([^"]*)"?|([^\s"]+))/g;

const tokensOf = (text: string): string[] => text.normalize('NFKC').toLowerCase().match(TOKENS) ?? [];

/** The text to index: its tokens, separated by spaces. */
export const toSearchText = (text: string): string => tokensOf(text).join(' ');

/**
 * Converts a user's query for `websearch_to_tsquery`: all terms, `"a phrase"`, `or`, `-not`. A part of several tokens,
 * such as `21.5`, becomes a phrase. Empty if the query contains no token.
 */
export function toSearchQuery(query: string): string {
  const parts: string[] = [];
  for (const [, not = '', phrase, term = ''] of query.normalize('NFKC').matchAll(PARTS)) {
    const tokens = tokensOf(phrase ?? term);
    if (tokens.length === 0) continue;
    // Quotes prevent `or` in a phrase from becoming an operator.
    parts.push(not + (phrase === undefined && tokens.length === 1 ? tokens[0] : `"${tokens.join(' ')}"`));
  }
  return parts.join(' ');
}
