const MAX_LENGTH = 60;

/**
 * A name or value that another party chose, in a sentence that a person decides by: in single quotes, at most 60 characters,
 * without quotation marks and without characters that are invisible or change the direction of text.
 */
export function quoted(text: string): string {
  const plain = [...text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}'"‘’“”]/gu, '?')];
  return `'${plain.length <= MAX_LENGTH ? plain.join('') : `${plain.slice(0, MAX_LENGTH - 1).join('')}…`}'`;
}
