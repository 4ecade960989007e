/** Samples or intervals, stored roll-ups, and series that a read may have for each request of the rate limit that it costs. */
const POINTS = 10_000;
const ROLLUPS = 50_000;
const SERIES = 25;

/** The cost of a read in requests, from the most that it may have, so that it is known before. */
export const readCost = ({ points, rollups = 0, series = 1 }: Record<'points', number> & ReadSize): number =>
  Math.max(1, Math.ceil(points / POINTS), Math.ceil(rollups / ROLLUPS), Math.ceil(series / SERIES));

interface ReadSize {
  /** Stored roll-ups that are read. */
  rollups?: number;
  series?: number;
}
