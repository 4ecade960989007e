import {
  GRID_COLUMNS,
  MAX_ROW,
  MAX_TILE_HEIGHT,
  overlaps,
  type TilePlace,
} from '../../../src/domain/dashboard-grid.ts';

// The layout of tiles while a dashboard is changed. No function changes its arguments.

const clamp = (value: number, least: number, most: number): number => Math.min(most, Math.max(least, value));

/** The place within the grid that is nearest to the wanted one. */
export function withinGrid<T extends TilePlace>(tile: T): T {
  const w = clamp(Math.round(tile.w), 1, GRID_COLUMNS);
  const h = clamp(Math.round(tile.h), 1, MAX_TILE_HEIGHT);
  return { ...tile, w, h, x: clamp(Math.round(tile.x), 0, GRID_COLUMNS - w), y: clamp(Math.round(tile.y), 0, MAX_ROW) };
}

/** The tiles with one at its new place; tiles that it covers move down, and those that they cover then. */
export function placeTile<T extends TilePlace>(tiles: readonly T[], placed: T): T[] {
  const fixed: T[] = [withinGrid(placed)];
  const others = tiles.filter(({ id }) => id !== placed.id).sort((one, other) => one.y - other.y || one.x - other.x);
  for (const tile of others) {
    let y = tile.y;
    for (let covering = fixed.find((one) => overlaps({ ...tile, y }, one)); covering !== undefined; ) {
      y = covering.y + covering.h;
      covering = fixed.find((one) => overlaps({ ...tile, y }, one));
    }
    fixed.push({ ...tile, y });
  }
  const byId = new Map(fixed.map((tile) => [tile.id, tile]));
  const kept = tiles.map(({ id }) => byId.get(id) as T);
  return tiles.some(({ id }) => id === placed.id) ? kept : [...kept, fixed[0] as T];
}

/** The first free place for a tile of this size, row by row. */
export function freePlace(tiles: readonly TilePlace[], { w, h }: { w: number; h: number }): { x: number; y: number } {
  for (let y = 0; ; y++) {
    for (let x = 0; x + w <= GRID_COLUMNS; x++) {
      const place = { id: '', x, y, w, h };
      if (!tiles.some((tile) => overlaps(tile, place))) return { x, y };
    }
  }
}

/** From the top, row by row: the order of reading, also in one column. */
export const inReadingOrder = <T extends TilePlace>(tiles: readonly T[]): T[] =>
  [...tiles].sort((one, other) => one.y - other.y || one.x - other.x);
