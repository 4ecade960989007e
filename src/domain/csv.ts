/** Characters with which spreadsheets begin a formula, also after they trimmed a cell, and their full-width forms. */
const FORMULA = /^[\s\u00a0\ufeff]*[=+\-@\t\r＝＋－＠]/u;

/**
 * A record of a CSV file (RFC 4180): every field in quotation marks, ended by CR LF. A text that a spreadsheet would take for
 * a formula gets an apostrophe before it (OWASP, "CSV Injection"). A null is an empty field.
 */
export function csvRecord(fields: readonly (string | number | null)[]): string {
  return `${fields.map(csvField).join(',')}\r\n`;
}

/** A field of a record. */
export function csvField(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return `${value}`;
  const safe = FORMULA.test(value) ? `'${value}` : value;
  return `"${safe.replaceAll('"', '""')}"`;
}
