import type { Page, Position } from '../../src/store/contract.ts';

const later = (a: Position, b: Position): boolean =>
  a.createdAt !== b.createdAt ? a.createdAt > b.createdAt : a.id > b.id;

/** A page of what a store in memory holds, newest first. */
export function pageOf<T>(all: T[], place: (item: T) => Position, limit: number, after?: Position): Page<T> {
  const sorted = all.sort((a, b) => (later(place(a), place(b)) ? -1 : 1));
  const rest = after === undefined ? sorted : sorted.filter((item) => later(after, place(item)));
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return {
    items,
    next: rest.length > limit && last !== undefined ? place(last) : null,
    places: () => items.map(place),
  };
}
