// The words of a text, cut and folded alike where it is kept and where it is sought, so that what is found does not depend
// on the database's locale. Its own text search has the index and the logic.

/** Scripts that put no spaces between words: each of their characters counts as one. */
const UNSPACED =
  '[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]';
const LETTERS = '[\\p{L}\\p{M}\\p{N}]';
const WORDS = new RegExp(`[${UNSPACED}&&${LETTERS}]\\p{M}*|[${LETTERS}--${UNSPACED}]+`, 'gv');
/** What websearch knows: a phrase in quotes, or a word, either with a minus before it. */
const PARTS = /(-?)(?:"([^"]*)"?|([^\s"]+))/g;

const wordsOf = (text: string): string[] => text.normalize('NFKC').toLowerCase().match(WORDS) ?? [];

/** What is kept of a text, words with a space between them. */
export const toSearchText = (text: string): string => wordsOf(text).join(' ');

/**
 * A person's query for `websearch_to_tsquery`: all words, `"a phrase"`, `or`, `-not`. A part that is several words, such as
 * `21.5`, is a phrase. Empty where there is no word in it.
 */
export function toSearchQuery(query: string): string {
  const parts: string[] = [];
  for (const [, not = '', phrase, word = ''] of query.normalize('NFKC').matchAll(PARTS)) {
    const words = wordsOf(phrase ?? word);
    if (words.length === 0) continue;
    // Quotes keep a word `or` in a phrase from being an operator.
    parts.push(not + (phrase === undefined && words.length === 1 ? words[0] : `"${words.join(' ')}"`));
  }
  return parts.join(' ');
}
