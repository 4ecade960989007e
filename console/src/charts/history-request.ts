import { serverNow } from '../ui/clock.ts';
import { type RangeName, ranges, type SeriesId, type TimeWindow } from './chart-window.ts';
import { historyBatches } from './history-batches.ts';
import { cutPoints, joinPoints, pointsOf, type SeriesPoints } from './points.ts';

/** A range that ends now, or a fixed window. */
export type ShownTime = { range: RangeName } | { window: TimeWindow };

export interface HistoryRequest extends SeriesId {
  time: ShownTime;
  /** The samples of a short range instead of intervals; not for values that last, as they do not name the one before the first. */
  prefersSamples: boolean;
  /** Length of the intervals; the service chooses one if it is missing. */
  step?: string;
}

/** Below it, the samples of a device that reports once a second are few enough. */
const MAX_SAMPLED_MS = 2 * 3_600_000;

export const windowNow = (time: ShownTime): TimeWindow => {
  if ('window' in time) return time.window;
  const to = serverNow();
  return { from: to - ranges[time.range].length, to };
};

/**
 * The points of the time. With those that were loaded before, only what is later than they confirm is requested; the length
 * of the intervals stays the same.
 */
export async function loadHistory(request: HistoryRequest, known: SeriesPoints | undefined): Promise<SeriesPoints> {
  const { time, step = null } = request;
  const window = windowNow(time);
  // The newest samples may be ahead of the clock.
  const to = 'range' in time ? null : window.to;
  if (known !== undefined && known.confirmedTo > window.from) {
    const from = known.step === 0 ? known.confirmedTo : Math.floor(known.confirmedTo / known.step) * known.step;
    const tail = await requestPoints(request, { from, to, step: known.stepText });
    if (tail !== null) return cutPoints(joinPoints(known, tail.points, tail.from), window.from);
  }
  const isShort = request.prefersSamples && window.to - window.from <= MAX_SAMPLED_MS;
  const samples = isShort ? await requestPoints(request, { from: window.from, to, step: 'raw' }) : null;
  const found = samples ?? (await requestPoints(request, { from: window.from, to, step }));
  if (found === null) throw new Error('intervals are one answer');
  return found.points;
}

/** The points, and from when on; null if the range has more samples than an answer. */
async function requestPoints(
  { deviceId, property }: SeriesId,
  range: { from: number; to: number | null; step: string | null },
): Promise<{ points: SeriesPoints; from: number } | null> {
  const history = await historyBatches.load({ deviceId, property, ...range });
  return history.next_from === null ? { points: pointsOf(history, serverNow()), from: Date.parse(history.from) } : null;
}
