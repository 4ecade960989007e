import { describe, expect, it } from 'vitest';
import { freePlace, inReadingOrder, placeTile } from '../../../console/src/dashboards/layout.ts';
import { GRID_COLUMNS, overlaps, type TilePlace } from '../../../src/domain/dashboard-grid.ts';
import { fc } from '../../support/properties.ts';

const tile = (id: string, x: number, y: number, w = 3, h = 2): TilePlace => ({ id, x, y, w, h });
const ids = (tiles: readonly TilePlace[]) => tiles.map(({ id }) => id);

describe('placing a tile', () => {
  it('moves the tiles that it covers down, and those that they cover then', () => {
    const tiles = [tile('a', 0, 0), tile('b', 0, 2), tile('c', 0, 4), tile('d', 6, 0)];
    const placed = placeTile(tiles, tile('d', 0, 1));
    expect(placed).toEqual([tile('a', 0, 3), tile('b', 0, 5), tile('c', 0, 7), tile('d', 0, 1)]);
    // In the order of before, so that a tile keeps its element.
    expect(ids(placed)).toEqual(ids(tiles));
  });

  it('keeps the tile within the grid', () => {
    expect(placeTile([], tile('a', 11, -3))).toEqual([tile('a', 9, 0)]);
    expect(placeTile([], tile('a', 4, 0, 40, 90))).toEqual([tile('a', 0, 0, GRID_COLUMNS, 20)]);
  });

  it('leaves no overlaps, whatever is placed where', () => {
    const place = fc.record({ x: fc.integer({ min: -2, max: 14 }), y: fc.nat(8), w: fc.nat(14), h: fc.nat(6) });
    fc.assert(
      fc.property(fc.array(place, { maxLength: 12 }), place, (places, moved) => {
        let tiles: TilePlace[] = [];
        for (const [n, one] of places.entries()) tiles = placeTile(tiles, { id: `t${n}`, ...one });
        const after = placeTile(tiles, { id: 't0', ...moved });
        for (const [n, one] of after.entries()) {
          expect(one.x + one.w).toBeLessThanOrEqual(GRID_COLUMNS);
          expect(after.slice(n + 1).filter((other) => overlaps(one, other))).toEqual([]);
        }
      }),
    );
  });
});

it('a free place is the first one from the top that is wide and high enough', () => {
  const tiles = [tile('a', 0, 0, 6), tile('b', 8, 0, 4)];
  expect(freePlace(tiles, { w: 2, h: 2 })).toEqual({ x: 6, y: 0 });
  expect(freePlace(tiles, { w: 3, h: 2 })).toEqual({ x: 0, y: 2 });
});

it('the order of reading is row by row', () => {
  expect(ids(inReadingOrder([tile('c', 0, 2), tile('b', 6, 0), tile('a', 0, 0)]))).toEqual(['a', 'b', 'c']);
});
