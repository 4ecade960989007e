import type { Page, Position } from '../contract.ts';

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** The two parameters of `(created_at, id) < ($n, $m)`, for lists that are newest first. */
export const descendingStart = (after: Position | undefined): [createdAt: number, id: string] =>
  after ? [after.createdAt, after.id] : [Number.MAX_SAFE_INTEGER, LAST_ID];

/** The two parameters of `(created_at, id) > ($n, $m)`, for lists that are oldest first. */
export const ascendingStart = (after: Position | undefined): [createdAt: number, id: string] =>
  after ? [after.createdAt, after.id] : [0, FIRST_ID];

/** Of `limit + 1` rows, the last only shows that there is a next page. */
export function pageOf<T>(rows: readonly T[], limit: number, position: (row: T) => Position): Page<T> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, next: rows.length > limit && last ? position(last) : null, positions: () => items.map(position) };
}
