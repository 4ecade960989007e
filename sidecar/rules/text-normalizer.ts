// Sentences as the rules read them: lower case, without accents, quotes, courtesies and articles.

/** Letters, digits and the few signs that mean something, single spaces between. */
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

/** A sentence without what is said for courtesy. */
export function stripFillerWords(sentence: string): string {
  let text = `${sentence.trim()} `;
  text = text.replace(COURTESIES, '').trim();
  for (let before = ''; before !== text; ) {
    before = text;
    text = text.replace(ENDINGS, '').trim();
  }
  return text.replace(ARTICLES, '').replace(/ +/g, ' ').trim();
}

/** The same names are looked at for each device, each memory and each sentence. */
const tokenCache = new Map<string, readonly string[]>();
const MAX_CACHED = 5_000;

/** The words of a name or a phrase, each in the singular, as far as an `s` tells. */
export function tokenize(text: string): readonly string[] {
  const before = tokenCache.get(text);
  if (before !== undefined) return before;
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

/** Whether these words stand one after another in those. */
export function indexOfPhrase(part: readonly string[], whole: readonly string[]): number {
  if (part.length === 0) return -1;
  for (let at = 0; at + part.length <= whole.length; at++) {
    if (part.every((word, place) => whole[at + place] === word)) return at;
  }
  return -1;
}

/** Identifiers of steps: readable, ASCII, at most 48 characters. */
export const slugOf = (text: string): string =>
  normalizeText(text)
    .replace(/[^a-z0-9]+/g, '-')
    .slice(0, 48)
    .replace(/^-+|-+$/g, '') || 'device';
