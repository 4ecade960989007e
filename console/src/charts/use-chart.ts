import { useMemo, useRef } from 'react';
import type { Problem } from '../api/problem.ts';
import { type ComparisonName, comparisons, type SeriesId, seriesKey } from './chart-window.ts';
import type { HistoryRequest, ShownTime } from './history-request.ts';
import type { PlotLine } from './plot-data.ts';
import type { PaneContent } from './plot-view.ts';
import type { SeriesPoints } from './points.ts';
import { StateColours } from './state-band.ts';
import { earlierRequests, useHistory, useLiveHistory } from './use-history.ts';
import { type SeriesInfo, useSeriesInfo } from './use-series-info.ts';

export interface ShownSeries extends SeriesId, SeriesInfo {
  key: string;
  /** Number of its colour. */
  colour: number;
  /** Undefined while it is loaded. */
  points: SeriesPoints | undefined;
  /** The same time earlier. */
  compared: SeriesPoints | undefined;
  problem: Problem | null;
}

/** Lines of one unit, or the states of one property. */
export interface ChartPane {
  key: string;
  unit: string | undefined;
  series: readonly ShownSeries[];
  content: PaneContent;
}

export interface ChartModel {
  series: readonly ShownSeries[];
  panes: readonly ChartPane[];
  /** How much earlier the compared values are; 0 without a comparison. */
  shift: number;
  isLoading: boolean;
  isFetching: boolean;
  reload(): void;
}

interface ChartRequest {
  series: readonly SeriesId[];
  time: ShownTime;
  comparison: ComparisonName | null;
  /** Whether new reports are added. */
  isLive: boolean;
}

/** Loads what a chart shows, and keeps it up to date. */
export function useChart({ series, time, comparison, isLive }: ChartRequest): ChartModel {
  const { infos, isLoading } = useSeriesInfo(series);
  const requests: HistoryRequest[] = series.map((one, index) => ({
    ...one,
    time,
    prefersSamples: typeof infos[index]?.current === 'number' && infos[index]?.isStepped === false,
  }));
  const shift = comparison === null ? 0 : comparisons[comparison].shift;
  const history = useHistory(requests, { enabled: !isLoading, group: '' });
  useLiveHistory(requests, { enabled: isLive && !isLoading });
  const earlier = useHistory(shift === 0 ? [] : earlierRequests(requests, { time, shift }), {
    ...{ enabled: !isLoading, group: `${shift}` },
  });
  const shown = useSameList(
    series.map((one, index) => ({
      ...one,
      ...(infos[index] as SeriesInfo),
      ...{ key: seriesKey(one), colour: index, points: history.points[index], compared: earlier.points[index] },
      problem: history.problems[index] ?? null,
    })),
  );
  const colours = useRef(new Map<string, StateColours>()).current;
  const panes = useMemo(() => panesOf(shown, { shift, colours }), [shown, shift, colours]);
  return {
    ...{ series: shown, panes, shift },
    isLoading: isLoading || history.points.some((points, n) => points === undefined && history.problems[n] === null),
    isFetching: history.isFetching || earlier.isFetching,
    reload: history.reload,
  };
}

/** The list of the last render while its entries have the same members. */
function useSameList<T extends object>(list: readonly T[]): readonly T[] {
  const last = useRef(list);
  const isSame =
    list.length === last.current.length &&
    list.every((one, n) => {
      const other = last.current[n] as T;
      return (Object.keys(one) as (keyof T)[]).every((name) => one[name] === other[name]);
    });
  if (!isSame) last.current = list;
  return last.current;
}

/** Lines with the same unit share a pane; without one, those of the same property. */
function panesOf(
  series: readonly ShownSeries[],
  { shift, colours }: { shift: number; colours: Map<string, StateColours> },
): ChartPane[] {
  const byUnit = Map.groupBy(
    series.filter(({ points, isStepped }) => {
      if (points === undefined) return false;
      return points.numbers.length > 0 || (isStepped && points.before !== null && points.segments.length === 0);
    }),
    ({ unit, property }) => unit ?? `property ${property}`,
  );
  const numbers = [...byUnit].map(([key, group]) => ({
    ...{ key: `numbers ${key}`, unit: group[0]?.unit, series: group },
    content: { kind: 'numbers' as const, lines: group.flatMap((one) => linesOf(one, shift)) },
  }));
  const states = series.flatMap((one): ChartPane[] => {
    const segments = one.points?.segments ?? [];
    if (segments.length === 0) return [];
    const known = colours.get(one.key) ?? new StateColours();
    colours.set(one.key, known);
    const content = { kind: 'states' as const, segments, colours: known.add(segments) };
    return [{ key: `states ${one.key}`, unit: undefined, series: [one], content }];
  });
  return [...numbers, ...states];
}

/** The compared values are drawn first, below the others. */
function linesOf({ key, colour, points, compared, isStepped }: ShownSeries, shift: number): PlotLine[] {
  const common = { key, colour, isStepped };
  const own = points === undefined ? [] : [{ ...common, points, shift: 0, isCompared: false }];
  const earlier =
    compared === undefined || shift === 0 ? [] : [{ ...common, points: compared, shift, isCompared: true }];
  return [...earlier, ...own];
}
