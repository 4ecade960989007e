import type { EpochMs } from '../../domain/values.ts';

/** Cursor in a list, newest first: the next page begins after it. */
export interface Position {
  createdAt: EpochMs;
  id: string;
}
export interface Page<T> {
  items: T[];
  next: Position | null;
  /** Cursor of each item, so that a list can continue after any of them. */
  positions(): Position[];
}
