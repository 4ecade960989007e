import type { Position } from '../../domain/cursor.ts';

/** The most entries that a list counts: beyond, a count would read a large part of a table. */
export const MAX_COUNTED = 10_000;

export interface Page<T> {
  items: T[];
  next: Position | null;
  /** Position of each item, so that a list can continue after any of them. */
  positions(): Position[];
  /** Number of the entries of all pages; null if it is over `MAX_COUNTED`, or the list cannot tell it. */
  count(): Promise<number | null>;
}
