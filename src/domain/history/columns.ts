import { deflateRaw, deflateRawSync, inflateRawSync } from 'node:zlib';
import type { Json } from '../values.ts';

/*
 * Columns of a series as compressed JSON. Neighbouring values are similar, so numbers are stored as differences, which are
 * small integers, and texts as indexes of a list.
 */

/** Decimal places up to which numbers are stored as differences of integers. */
const MAX_PLACES = 6;
/** Differences of integers below it are exact. */
const MAX_SCALED = 2 ** 52;

/** `[places, first, difference, …]` with numbers that have few decimal places, otherwise the numbers themselves. */
type PackedNumbers = { d: number[] } | { n: number[] };
/** Values of any type: distinct values and the index of each. */
type PackedValues = PackedNumbers | { u: Json[]; i: number[] };

export function packNumbers(values: readonly number[]): PackedNumbers {
  const places = placesOf(values);
  if (places === null) return { n: [...values] };
  const scale = 10 ** places;
  let before = 0;
  const differences = values.map((value) => {
    const scaled = Math.round(value * scale);
    const difference = scaled - before;
    before = scaled;
    return difference;
  });
  return { d: [places, ...differences] };
}

/** The least number of decimal places with which all values are exact; null if there is none. */
function placesOf(values: readonly number[]): number | null {
  let places = 0;
  for (const value of values) {
    while (!isExact(value, 10 ** places)) {
      places += 1;
      if (places > MAX_PLACES) return null;
    }
  }
  // With more places an earlier value may be too large.
  const scale = 10 ** places;
  return values.every((value) => isExact(value, scale)) ? places : null;
}

function isExact(value: number, scale: number): boolean {
  const scaled = Math.round(value * scale);
  return Math.abs(scaled) < MAX_SCALED && scaled / scale === value;
}

export function packValues<T extends Json>(values: readonly T[]): PackedValues {
  if (values.every((value) => typeof value === 'number')) return packNumbers(values as readonly number[]);
  const indexes = new Map<T, number>();
  const i = values.map((value) => {
    const index = indexes.get(value) ?? indexes.size;
    indexes.set(value, index);
    return index;
  });
  return { u: [...indexes.keys()], i };
}

const TOO_SHORT = 'a column of a history segment is too short';

/** Throws if the columns that have an item for each sample or bucket are not of the same length. */
export function expectSameLength(first: readonly unknown[], ...others: readonly (readonly unknown[])[]): void {
  if (others.some(({ length }) => length !== first.length)) throw new Error(TOO_SHORT);
}

/** Reads the values of a column in their order, without an array of them. */
export class ColumnReader<T extends Json> {
  /** Differences, values or indexes. */
  readonly #items: readonly (number | Json)[];
  readonly #distinct: readonly Json[] | null;
  /** 10 to the power of the decimal places of differences; null for values and indexes. */
  readonly #scale: number | null;
  #scaled = 0;
  #at: number;

  constructor(packed: PackedValues) {
    this.#items = 'd' in packed ? packed.d : 'n' in packed ? packed.n : packed.i;
    this.#distinct = 'u' in packed ? packed.u : null;
    this.#scale = 'd' in packed ? 10 ** (packed.d[0] ?? 0) : null;
    this.#at = 'd' in packed ? 1 : 0;
  }

  next(): T {
    if (this.#at >= this.#items.length) throw new Error(TOO_SHORT);
    const item = this.#items[this.#at];
    this.#at += 1;
    if (this.#scale === null) return (this.#distinct === null ? item : this.#distinct[item as number]) as T;
    this.#scaled += item as number;
    return (this.#scaled / this.#scale) as T;
  }
}

/** Times in ascending order: differences of differences, which are small for regular times. */
export function packTimes(times: readonly number[]): number[] {
  let before = 0;
  let step = 0;
  return times.map((time) => {
    const difference = time - before;
    const change = difference - step;
    before = time;
    step = difference;
    return change;
  });
}

/** Reads such times one by one. */
export class TimeReader {
  readonly #changes: readonly number[];
  #at = 0;
  #time = 0;
  #step = 0;

  constructor(packed: readonly number[]) {
    this.#changes = packed;
  }

  next(): number {
    if (this.#at >= this.#changes.length) throw new Error(TOO_SHORT);
    this.#step += this.#changes[this.#at] as number;
    this.#time += this.#step;
    this.#at += 1;
    return this.#time;
  }
}

/** The first byte of a compressed text: the version of the format. */
const FORMAT = 1;

/** Bytes of a text that are compressed in less time than another thread takes to receive them and to return the result. */
const MAX_INLINE = 8 * 1024;
/** Of zlib: a lower one is faster, and its result has more bytes. */
export type CompressionLevel = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;

/** JSON text of columns; a long one on another thread: a day with a sample each second takes tens of milliseconds. */
export async function compress(columns: string, level: CompressionLevel = 6): Promise<Buffer> {
  const text = Buffer.from(columns);
  const bytes = text.length <= MAX_INLINE ? deflateRawSync(text, { level }) : await deflateOnThread(text, level);
  return Buffer.concat([Buffer.of(FORMAT), bytes]);
}

const deflateOnThread = (text: Uint8Array, level: CompressionLevel): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    deflateRaw(text, { level }, (error, bytes) => {
      if (error) reject(error);
      else resolve(bytes);
    });
  });

/** Throws if the bytes have another format, which only a newer build writes. */
export function decompress<Columns>(bytes: Uint8Array): Columns {
  if (bytes[0] !== FORMAT) throw new Error(`unknown format ${bytes[0]} of a history segment`);
  return JSON.parse(inflateRawSync(bytes.subarray(1)).toString()) as Columns;
}
