import { DataRefused } from '../contract.ts';

/** Types of elements, by their object identifiers. */
const oids = { bytea: 17, text: 25, json: 114 } as const;
const HEADER = 20;
const NULL_LENGTH = -1;

/**
 * An array in PostgreSQL's binary format: as text each quotation mark would be escaped, and everything parsed once more. Not
 * for an empty array, which has another header.
 */
export function binaryArray(type: keyof typeof oids, elements: readonly (string | Uint8Array | null)[]): Buffer {
  const lengths = elements.map((element) => (element === null ? NULL_LENGTH : Buffer.byteLength(element)));
  const bytes = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + 4 + Math.max(length, 0), HEADER));
  bytes.writeInt32BE(1, 0); // dimensions
  bytes.writeInt32BE(elements.includes(null) ? 1 : 0, 4); // whether there are nulls
  bytes.writeInt32BE(oids[type], 8);
  bytes.writeInt32BE(elements.length, 12);
  bytes.writeInt32BE(1, 16); // lower bound of the index
  let at = HEADER;
  elements.forEach((element, n) => {
    at = bytes.writeInt32BE(lengths[n] as number, at);
    if (element === null) return;
    if (typeof element === 'string') at += bytes.write(element, at);
    else {
      bytes.set(element, at);
      at += element.length;
    }
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
