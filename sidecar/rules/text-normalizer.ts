// Normalizes text for the rules: lower case, without accents, quotes, courtesy phrases and articles.

/** Keeps letters, digits and the signs of the grammar, separated by single spaces. */
export function normalizeText(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/['’`]/g, '')
    .replace(/(?<=\d),(?=\d)/g, '.')
    .replace(/[^\p{L}\p{N}.,;:%°\n+-]/gu, ' ')
    .replace(/\.(?!\d)/g, ' ')
    .replace(/ *([;,:\n]) */g, '$1')
    .replace(/ +/g, ' ')
    .trim();
}

const COURTESIES =
  /^(?:(?:please|hey|hello|ok|okay|now|so|just|can you|could you|will you|would you|i want you to|i want to|i want|i would like you to|i would like to|i would like|id like you to|id like to|id like|lets|let us|we should|you should)[ ,])+/;
const ENDINGS = /[ ,](?:please|now|thanks|thank you|for me)$/;
const ARTICLES = /\b(?:the|a|an|my|our|your|this|that|these|those)\b ?/g;

/** Removes courtesy phrases and articles. */
export function stripFillerWords(sentence: string): string {
  let text = `${sentence.trim()} `;
  text = text.replace(COURTESIES, '').trim();
  for (let before = ''; before !== text; ) {
    before = text;
    text = text.replace(ENDINGS, '').trim();
  }
  return text.replace(ARTICLES, '').replace(/ +/g, ' ').trim();
}

/** Cached because the same names are tokenized for each device, memory and sentence. */
const tokenCache = new Map<string, readonly string[]>();
const MAX_CACHED = 5_000;

/** Splits a name or a phrase into tokens in the singular (without a final `s`). */
export function tokenize(text: string): readonly string[] {
  const cached = tokenCache.get(text);
  if (cached !== undefined) return cached;
  const words = normalizeText(text)
    .replace(ARTICLES, '')
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '')
    .map(singularize);
  if (tokenCache.size >= MAX_CACHED) tokenCache.clear();
  tokenCache.set(text, words);
  return words;
}

export const singularize = (word: string): string =>
  word.length > 3 && word.endsWith('s') && !word.endsWith('ss') ? word.slice(0, -1) : word;

/** Index of the token sequence `phrase` in `tokens`, or -1. */
export function indexOfPhrase(phrase: readonly string[], tokens: readonly string[]): number {
  if (phrase.length === 0) return -1;
  for (let at = 0; at + phrase.length <= tokens.length; at++) {
    if (phrase.every((token, index) => tokens[at + index] === token)) return at;
  }
  return -1;
}

/** A part of a step id: readable, ASCII, at most 48 characters. */
export const slugOf = (text: string): string =>
  normalizeText(text)
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 48)
    .replace(/^-+|-+$/g, '') || 'device';
