/** Control, line separator and formatting characters, except the joiners that words of some scripts need. */
const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}[\p{Cf}--[\u200c\u200d]]]+/gv;

/** One line of at most `maxLength` UTF-16 units: unprintable characters become spaces, and a longer text ends with `…`. */
export function toPrintable(text: string, maxLength: number): string {
  const line = text.replace(UNPRINTABLE, ' ').trim();
  return line.length <= maxLength ? line : `${line.slice(0, maxLength - 1).toWellFormed()}…`;
}
