// The grid of a dashboard, without schemas: also for the console.

export const GRID_COLUMNS = 12;
/** Rows are bounded, so that a tile can be found. */
export const MAX_ROW = 500;
export const MAX_TILE_HEIGHT = 20;
/** So that a page with all of them can be read and kept up to date. */
export const MAX_TILES = 60;
export const MAX_TILE_SERIES = 6;

/** How far a chart reaches back. */
export const tileRanges = ['hour', 'six_hours', 'day', 'week', 'month'] as const;
export type TileRange = (typeof tileRanges)[number];

/** Columns and rows, from 0. */
export interface TilePlace {
  id: string;
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Whether two tiles share a cell of the grid. */
export const overlaps = (one: TilePlace, other: TilePlace): boolean =>
  one.x < other.x + other.w && other.x < one.x + one.w && one.y < other.y + other.h && other.y < one.y + one.h;
