import type { Position } from '../../domain/cursor.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Page } from './page.ts';

// Pages of lists that merge entries of several sources, newest first.

/** Position of an entry. Entries of the same actor and time are distinguished by `n`. */
export interface EntryPosition {
  at: EpochMs;
  id: Uuid;
  n: number;
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

export const isNewer = (one: EntryPosition, other: EntryPosition): boolean =>
  one.at !== other.at ? one.at > other.at : one.id !== other.id ? one.id > other.id : one.n > other.n;

export const newestFirst = (one: EntryPosition, other: EntryPosition): number => (isNewer(one, other) ? -1 : 1);

export function newest(one: EntryPosition | null, other: EntryPosition | null): EntryPosition | null {
  if (one === null || other === null) return one ?? other;
  return isNewer(one, other) ? one : other;
}

const positionOf = ({ at, id, n }: EntryPosition): Position => ({ createdAt: at, id: `${id}.${n}` });

/** The list starts before the end of the range and after the last entry of the previous page. */
export function startPosition(to: EpochMs | undefined, after: Position | undefined): EntryPosition {
  const end = to === undefined ? { at: Number.MAX_SAFE_INTEGER, id: LAST_ID, n: 0 } : { at: to, id: FIRST_ID, n: 0 };
  if (after === undefined) return end;
  const [id = FIRST_ID, n = '0'] = after.id.split('.');
  const start = { at: after.createdAt, id, n: Number(n) };
  return isNewer(start, end) ? end : start;
}

/**
 * A page of sorted entries. Entries older than `edge`, the newest position beyond which a source was not examined, wait for
 * the next page, so that a page may have fewer entries than `limit`.
 */
export function entryPage<Entry extends EntryPosition>(
  entries: readonly Entry[],
  edge: EntryPosition | null,
  { limit, after }: { limit: number; after: Position | undefined },
): Page<Entry> {
  const complete = edge === null ? entries : entries.filter((entry) => !isNewer(edge, entry));
  const items = complete.slice(0, limit);
  const last = complete.length > limit ? (items.at(-1) ?? null) : edge;
  const next = last && positionOf(last);
  // Counting merged sources would read all of them.
  const count = after === undefined && next === null ? items.length : null;
  return { items, next, positions: () => items.map(positionOf), count: async () => count };
}
