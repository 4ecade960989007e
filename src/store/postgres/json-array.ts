import { DataRefused } from '../contract.ts';

const JSON_OID = 114;
const HEADER = 20;

/**
 * `json[]` in PostgreSQL's binary format: as text each quotation mark would be escaped, and everything parsed once
 * more. Not for an empty array, which has another header.
 */
export function jsonArray(texts: readonly string[]): Buffer {
  const lengths = texts.map((text) => Buffer.byteLength(text));
  const bytes = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + 4 + length, HEADER));
  bytes.writeInt32BE(1, 0); // dimensions
  bytes.writeInt32BE(0, 4); // no nulls
  bytes.writeInt32BE(JSON_OID, 8);
  bytes.writeInt32BE(texts.length, 12);
  bytes.writeInt32BE(1, 16); // lower bound of the index
  let at = HEADER;
  texts.forEach((text, n) => {
    at = bytes.writeInt32BE(lengths[n] as number, at);
    at += bytes.write(text, at);
  });
  return bytes;
}

const UNSTORABLE_ESCAPE = /(?<!\\)(?:\\\\)*\\u(?:(0000)|d[89a-f])/;

/** Rejects what `json` accepts and `jsonb` does not: NUL, and an unpaired surrogate. */
export function assertStorable(text: string): string {
  const found = text.includes('\\u') ? UNSTORABLE_ESCAPE.exec(text) : null;
  if (found === null) return text;
  throw new DataRefused(found[1] ? '22P05' : '22P02', 'unsupported Unicode escape sequence');
}
