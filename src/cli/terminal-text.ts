import { randomUUID } from 'node:crypto';

/**
 * Control characters (C0, DEL, C1), formatting characters (among them those of bidirectional text) and the Unicode line
 * separators: a terminal acts on them, or shows a line in another order.
 */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Replaces each unsafe character by `\u{…}` with its code point, in which `backslash` stands for the first character. */
export const escapeForTerminal = (text: string, backslash = '\\'): string =>
  text.replace(UNSAFE, (character) => `${backslash}u{${(character.codePointAt(0) ?? 0).toString(16)}}`);

/** Replaces each unsafe character in JSON by its escape (RFC 8259 §7): the text of the same value. */
export const escapeJson = (json: string): string =>
  json.replace(UNSAFE, (character) =>
    Array.from({ length: character.length }, (_, n) => escapeCodeUnit(character.charCodeAt(n))).join(''),
  );

const escapeCodeUnit = (unit: number): string => `\\u${unit.toString(16).padStart(4, '0')}`;

/** SGR parameters (ECMA-48 §8.3.117) that start and end each style. */
const styles = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const;

/** Functions that style a part of a line. Styles are not nested. */
export type Colors = Record<keyof typeof styles, (text: string) => string>;

/** Stands for a style in a line. It is random, so that text from a service cannot contain it. */
const MARK = `<${randomUUID()}:`;
const marks = new RegExp(`${MARK}(\\d+)>`);

export const makeColors = (enabled: boolean): Colors =>
  Object.fromEntries(
    Object.entries(styles).map(([name, [start, end]]) => [
      name,
      (text: string) => (enabled ? `${MARK}${start}>${text}${MARK}${end}>` : text),
    ]),
  ) as Colors;

/** Characters that take two columns of a terminal: emoji, and those of East Asian scripts (UAX #11, wide). */
const WIDE =
  /\p{Emoji_Presentation}|\ufe0f|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303e\uff01-\uff60]/u;
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

const widthOf = (grapheme: string): number => (WIDE.test(grapheme) ? 2 : 1);

/** Columns of a terminal that the text takes; styles take none. */
export function columnsOf(text: string): number {
  let columns = 0;
  for (const part of text.split(marks).filter((_, n) => n % 2 === 0)) {
    for (const { segment } of graphemes.segment(part)) columns += widthOf(segment);
  }
  return columns;
}

/** The text, shortened to a number of columns with an ellipsis at its end. Its styles stay. */
export function fitColumns(text: string, columns: number): string {
  if (columnsOf(text) <= columns) return text;
  let left = columns - 1;
  let isCut = false;
  const shorten = (part: string): string => {
    let kept = '';
    for (const { segment } of graphemes.segment(part)) {
      if (isCut) break;
      if (widthOf(segment) > left) {
        isCut = true;
        kept += '…';
      } else {
        left -= widthOf(segment);
        kept += segment;
      }
    }
    return kept;
  };
  return text
    .split(marks)
    .map((part, n) => (n % 2 === 0 ? shorten(part) : `${MARK}${part}>`))
    .join('');
}

/** The bytes of a line for a terminal: the styles that `makeColors` added take effect, all else is plain text. */
export const renderLine = (line: string): string =>
  line
    .split(marks)
    .map((part, n) => (n % 2 === 0 ? escapeForTerminal(part) : `\u001b[${part}m`))
    .join('');
