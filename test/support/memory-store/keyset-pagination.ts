import { MAX_COUNTED } from '../../../src/store/contract/page.ts';
import type { Page, Position } from '../../../src/store/contract.ts';

const order = (a: Position, b: Position): number =>
  a.createdAt - b.createdAt || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

type PositionOf<T> = (item: T) => Position;

function pageOf<T>(sorted: readonly T[], positionOf: PositionOf<T>, limit: number, all: number): Page<T> {
  const items = sorted.slice(0, limit);
  const positions = items.map(positionOf).map(({ createdAt, id }) => ({ createdAt, id }));
  const next = sorted.length > limit ? (positions.at(-1) ?? null) : null;
  return { items, next, positions: () => positions, count: async () => (all > MAX_COUNTED ? null : all) };
}

export function newestFirst<T>(
  rows: readonly T[],
  positionOf: PositionOf<T>,
  limit: number,
  after?: Position,
): Page<T> {
  const rest = after === undefined ? [...rows] : rows.filter((row) => order(positionOf(row), after) < 0);
  return pageOf(
    rest.sort((a, b) => order(positionOf(b), positionOf(a))),
    positionOf,
    limit,
    rows.length,
  );
}

export function oldestFirst<T>(
  rows: readonly T[],
  positionOf: PositionOf<T>,
  limit: number,
  after?: Position,
): Page<T> {
  const rest = after === undefined ? [...rows] : rows.filter((row) => order(positionOf(row), after) > 0);
  return pageOf(
    rest.sort((a, b) => order(positionOf(a), positionOf(b))),
    positionOf,
    limit,
    rows.length,
  );
}

/** Maps the items of a page. */
export const mapPage = <T, U>(page: Page<T>, map: (item: T) => U): Page<U> => ({
  ...page,
  items: page.items.map(map),
});
