/** A piece of a file that people read. Its text has the line breaks of the file, so that a line can be computed. */
export interface Passage {
  /** `prose`: a comment, or a paragraph of a document. `text`: what a program or page shows. */
  kind: 'prose' | 'text';
  /** Line of the first character of the text, counted from 1. */
  line: number;
  text: string;
}

/** Finds the passages of one kind of file. */
export type Reader = (source: string, file: string) => Passage[];

export const lineAt = (source: string, position: number): number => source.slice(0, position).split('\n').length;

/** The replacement of quoted code: `code`, with the same number of line breaks. */
export const asCode = (quoted: string): string => `code${quoted.replace(/[^\n]+/g, '')}`;

/** True for text of at least three words. */
export const hasThreeWords = (text: string): boolean => /\p{L}+\s+\p{L}+\s+\p{L}+/u.test(text);

/** The text of a comment without its marks (`*`, `//`, `#`, `--`) and without code in backquotes. */
export const commentText = (comment: string): string =>
  comment
    .replace(/^\/\*+|\*+\/$/g, '')
    .replace(/^[ \t]*(?:\*|\/\/+|#+|--)/gm, '')
    .replace(/`[^`]*`/g, asCode)
    .trimEnd();
