import type { EpochMs } from '../../domain/values.ts';

/** A place in a list, newest first: the next page begins after it. */
export interface Position {
  createdAt: EpochMs;
  id: string;
}
export interface Page<T> {
  items: T[];
  next: Position | null;
  /** Where each of the items stands: a list can go on after any of them. */
  positions(): Position[];
}
