/*
 * A reader of DER (ITU-T X.690 §8, §10), for the members of certificates that Node does not expose. It reads definite lengths
 * and low tag numbers only: certificates contain no others.
 */

/** Thrown for bytes that are not the expected DER. */
export class DerError extends Error {
  override name = 'DerError';
}

/** An element within `bytes`. */
export interface DerElement {
  /** Identifier octet: class, constructed bit and tag number. */
  tag: number;
  /** Bounds of the whole element. */
  from: number;
  end: number;
  /** Start of its content. */
  start: number;
}

export const DER = {
  BOOLEAN: 0x01,
  INTEGER: 0x02,
  BIT_STRING: 0x03,
  OCTET_STRING: 0x04,
  OBJECT_IDENTIFIER: 0x06,
  UTF8_STRING: 0x0c,
  PRINTABLE_STRING: 0x13,
  IA5_STRING: 0x16,
  SEQUENCE: 0x30,
  SET: 0x31,
  /** Context-specific and constructed, `[0]` and `[3]`. */
  CONTEXT_0: 0xa0,
  CONTEXT_3: 0xa3,
} as const;

const HIGH_TAG_NUMBER = 0x1f;
const LONG_FORM = 0x80;
const MAX_LENGTH_BYTES = 3;

/** The element at `at`, which must end at or before `end`. */
export function elementAt(bytes: Uint8Array, at: number, end: number): DerElement {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (at + 2 > end || tag === undefined || first === undefined) throw new DerError('an element is truncated');
  if ((tag & HIGH_TAG_NUMBER) === HIGH_TAG_NUMBER) throw new DerError('a tag has a high number');
  let start = at + 2;
  let length = first;
  if (first >= LONG_FORM) {
    const size = first - LONG_FORM;
    if (size === 0 || size > MAX_LENGTH_BYTES) throw new DerError('a length has an unsupported form');
    length = 0;
    for (let n = 0; n < size; n += 1) length = length * 256 + (bytes[start + n] ?? 0);
    start += size;
  }
  if (start + length > end) throw new DerError('an element is truncated');
  return { tag, from: at, start, end: start + length };
}

/** The elements inside a constructed one. */
export function childrenOf(bytes: Uint8Array, parent: Pick<DerElement, 'start' | 'end'>): DerElement[] {
  const children: DerElement[] = [];
  for (let at = parent.start; at < parent.end; ) {
    const child = elementAt(bytes, at, parent.end);
    children.push(child);
    at = child.end;
  }
  return children;
}

/** The only element of `bytes`, with this tag. */
export function rootOf(bytes: Uint8Array, tag: number): DerElement {
  const root = elementAt(bytes, 0, bytes.length);
  if (root.end !== bytes.length) throw new DerError('bytes follow the element');
  return withTag(root, tag);
}

/** The element itself, if it has this tag. */
export function withTag(element: DerElement | undefined, tag: number): DerElement {
  if (element?.tag !== tag) throw new DerError('an element has another tag');
  return element;
}

/** The content of an element, in hex: of an OBJECT IDENTIFIER, a form that is compared. */
export const hexOf = (bytes: Uint8Array, { start, end }: DerElement): string =>
  Buffer.from(bytes.subarray(start, end)).toString('hex');
