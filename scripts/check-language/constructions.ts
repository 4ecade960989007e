import { lineAt, type Passage } from './passage.ts';

const constructions: readonly RegExp[] = [
  /\bwho(?:ever|m|mever)\b/gi,
  /\b(?:no|some|any)body\b/gi,
  /\b(?:is|are|was|were)\s+no\s+(?!longer\b|more\b|later\b|earlier\b|less\b|fewer\b)\w+/gi,
  /\bof\s+(?:ours|its\s+own|their\s+own|one’s\s+own)\b/gi,
  /\b(?:tell|tells|telling|told|hear|hears|hearing|heard|say|says|saying|said|ask|asks|asking|asked)\b/gi,
  /(?<!(?:\d|code)\s+)\bwords?\b/gi, // after a number it is a unit
  /\b(?:anew|any\s+more|as\s+ever|meanwhile|beside|of\s+which)\b/gi,
  /(?:^\s*|[.:;!?]\s+)(?:What|Who|Whatever)\b(?![^.!?]*\?)/g,
];

export interface Finding extends Passage {
  /** The construction. `line` is its line. */
  match: string;
}

/** The literary constructions in a passage. */
export const findingsIn = (passage: Passage): Finding[] =>
  constructions.flatMap((pattern) =>
    [...passage.text.matchAll(pattern)].map(({ 0: match, index }) => {
      const lineInPassage = lineAt(passage.text, index + match.search(/\p{L}/u));
      return { ...passage, line: passage.line + lineInPassage - 1, match: match.replace(/^\P{L}+/u, '') };
    }),
  );

/** Number of words of a text, for the limit per thousand words. */
export const wordsIn = (text: string): number => text.split(/\s+/).filter((word) => /\p{L}/u.test(word)).length;
