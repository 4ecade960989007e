import type { Position } from '../../domain/cursor.ts';

export interface Page<T> {
  items: T[];
  next: Position | null;
  /** Position of each item, so that a list can continue after any of them. */
  positions(): Position[];
}
