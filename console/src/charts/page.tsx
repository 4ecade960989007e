import { useEffect, useRef, useState } from 'react';
import { Link, useSearchParams } from 'wouter';
import { deviceHref, useDeviceName } from '../devices/device-name.tsx';
import { serverNow, useNow } from '../ui/clock.ts';
import { Empty, LoadError, Loading } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import { setFilters } from '../ui/query-filters.ts';
import { saveChartCsv, saveChartPicture } from './chart-files.ts';
import { ChartToolbar } from './chart-toolbar.tsx';
import { ChartView, nameIn, Swatch } from './chart-view.tsx';
import { type ChartQuery, type TimeWindow, untilNow, viewFrom, withSeries } from './chart-window.ts';
import type { ShownTime } from './history-request.ts';
import type { SeriesPoints } from './points.ts';
import { PointsTable } from './points-table.tsx';
import { SeriesPicker } from './series-picker.tsx';
import { type ChartModel, useChart } from './use-chart.ts';
import { useShownWindow } from './use-history.ts';
import { useMarks } from './use-marks.ts';

/** Several panes fit into a window. */
const paneHeight = (panes: number): number => (panes > 2 ? 150 : 220);

/** Chart of the history of properties of a device, and of others. Its address has all of its state. */
export function HistoryPage({ params: { id = '' } }: { params: Readonly<Record<string, string>> }) {
  const [query, setQuery] = useSearchParams();
  const view = viewFrom(id, query);
  const name = useDeviceName(id);
  const now = useNow();
  const time: ShownTime = view.fixed === null ? { range: view.range ?? '24h' } : { window: view.fixed };
  const isLive = view.fixed === null || view.fixed.to > now;
  const change = (values: Readonly<Record<string, string | null>>): void => setFilters(setQuery, values);
  const { moved, move, reset } = useMovedWindow(view, change);
  const shown = useShownWindow(time, now);
  const window = moved ?? shown;
  const model = useChart({ series: view.series, time, comparison: view.comparison, isLive });
  const deviceIds = [...new Set([id, ...view.series.map(({ deviceId }) => deviceId)])];
  const { marks, isCut } = useMarks(deviceIds, { time, enabled: view.showsEvents, isLive });
  const setSeries = (series: ChartQuery['series']): void =>
    setQuery((before) => withSeries(before, id, series), { replace: true });
  return (
    <>
      <header className="page-head">
        <div>
          <h1>History of {name}</h1>
          <p className="quiet">
            <Link href={deviceHref(id)}>Device</Link>
            {isLive ? ' · live' : ''}
          </p>
        </div>
      </header>
      <section className="card chart-card" aria-label="Chart" aria-busy={model.isFetching}>
        <ChartToolbar {...{ view, window, change }} onWindow={move} />
        <SeriesList {...{ id, view, model, setSeries }} />
        <Body {...{ view, model, window, marks }} name={name} onWindow={move} onReset={reset} change={change} />
        {isCut && <p className="quiet small">Only the newest 200 events of each device are shown.</p>}
      </section>
    </>
  );
}

/** Moves are shown at once, and put into the address when they pause. */
const SETTLE_MS = 250;

function useMovedWindow(view: ChartQuery, change: (values: Readonly<Record<string, string | null>>) => void) {
  const [moved, setMoved] = useState<TimeWindow | null>(null);
  /** The range that was shown before the first move. */
  const origin = useRef<ChartQuery['range']>(view.range);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  if (view.range !== null) origin.current = view.range;
  const latest = useRef(change);
  latest.current = change;
  // Another address, also by the browser's back button.
  const { range, fixed } = view;
  // biome-ignore lint/correctness/useExhaustiveDependencies: for each address
  useEffect(() => {
    clearTimeout(timer.current);
    setMoved(null);
  }, [range, fixed?.from, fixed?.to]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return {
    moved,
    move(wanted: TimeWindow): void {
      const window = untilNow(wanted, serverNow());
      setMoved(window);
      clearTimeout(timer.current);
      const [from, to] = [window.from, window.to].map((at) => new Date(at).toISOString()) as [string, string];
      timer.current = setTimeout(() => latest.current({ from, to, range: null }), SETTLE_MS);
    },
    reset(): void {
      clearTimeout(timer.current);
      setMoved(null);
      latest.current({ from: null, to: null, range: origin.current });
    },
  };
}

interface SeriesListProps {
  id: string;
  view: ChartQuery;
  model: ChartModel;
  setSeries(series: ChartQuery['series']): void;
}

const isEmpty = (points: SeriesPoints | undefined): boolean =>
  points !== undefined && points.numbers.length === 0 && points.segments.length === 0;

function SeriesList({ id, view, model, setSeries }: SeriesListProps) {
  return (
    <div className="series-list">
      <ul aria-label="Properties">
        {model.series.map((one, index) => (
          <li key={one.key} className="series-tag">
            {(one.points?.numbers.length ?? 0) > 0 && <Swatch colour={one.colour} />}
            {nameIn(one, model.series)}
            {one.problem !== null && <span className="quiet">({one.problem.message})</span>}
            {isEmpty(one.points) && <span className="quiet">(no values in this time)</span>}
            <button
              type="button"
              className="icon-button"
              aria-label={`Remove ${nameIn(one, model.series)}`}
              onClick={() => setSeries(view.series.filter((_, other) => other !== index))}
            >
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ul>
      <SeriesPicker deviceId={id} series={view.series} add={(one) => setSeries([...view.series, one])} />
    </div>
  );
}

interface BodyProps {
  view: ChartQuery;
  model: ChartModel;
  window: TimeWindow;
  marks: ReturnType<typeof useMarks>['marks'];
  name: string;
  onWindow(window: TimeWindow): void;
  onReset(): void;
  change(values: Readonly<Record<string, string | null>>): void;
}

function Body({ view, model, window, marks, name, onWindow, onReset, change }: BodyProps) {
  const place = useRef<HTMLDivElement>(null);
  const { series, panes, isLoading, reload } = model;
  const failed = series.find(({ points, problem }) => points === undefined && problem !== null);
  if (series.length === 0) return <Empty icon="search" title="Choose a property." />;
  if (isLoading) return <Loading what="Loading history" />;
  if (panes.length === 0 && failed !== undefined) return <LoadError problem={failed.problem} retry={reload} />;
  const savePicture = (): void => {
    if (place.current !== null)
      saveChartPicture(place.current, {
        ...{ panes, series, window, title: name },
        nameOf: (one) => nameIn(one, series),
      });
  };
  return (
    <>
      <div className="chart-actions">
        <button
          type="button"
          className="button"
          aria-pressed={view.showsTable}
          onClick={() => change({ view: view.showsTable ? null : 'table' })}
        >
          {view.showsTable ? 'Show chart' : 'Show table'}
        </button>
        <button type="button" className="button" onClick={() => saveChartCsv(series, window)}>
          Save CSV
        </button>
        {!view.showsTable && panes.length > 0 && (
          <button type="button" className="button" onClick={savePicture}>
            Save picture
          </button>
        )}
      </div>
      {view.showsTable ? (
        <PointsTable series={series} window={window} />
      ) : panes.length === 0 ? (
        <Empty icon="search" title="No values in this time." />
      ) : (
        <div ref={place}>
          <ChartView
            label={`History of ${name}`}
            {...{ model, window, marks, onWindow, onReset }}
            height={paneHeight(panes.length)}
          />
        </div>
      )}
    </>
  );
}
