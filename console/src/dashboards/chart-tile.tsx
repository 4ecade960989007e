import { useRef } from 'react';
import type { TileRange } from '../../../src/domain/dashboard-grid.ts';
import { DAY_MS } from '../../../src/domain/day.ts';
import { ChartView } from '../charts/chart-view.tsx';
import type { RangeName, SeriesId } from '../charts/chart-window.ts';
import type { HistoryRequest } from '../charts/history-request.ts';
import { trendPath } from '../charts/trends.ts';
import { useChart } from '../charts/use-chart.ts';
import { useHistory, useLiveHistory, useShownWindow } from '../charts/use-history.ts';
import { useNow } from '../ui/clock.ts';
import { Loading } from '../ui/feedback.tsx';
import type { TileOf } from './dashboard-types.ts';
import { StateTrend } from './state-trend.tsx';

const rangeNames: Readonly<Record<TileRange, RangeName>> = {
  hour: '1h',
  six_hours: '6h',
  day: '24h',
  week: '7d',
  month: '30d',
};
/** A row of the board with its gap. */
const ROW_PX = 86;
/** Border, time and axis of a chart; its title; and the legend of each pane. */
const AROUND_PX = 130;
const TITLE_PX = 26;
const LEGEND_PX = 28;
const LEAST_PX = 90;
/** A chart on a page with others: it is moved and zoomed on the page of its device. */
const ignore = (): void => {};

/** The chart of a tile; it ends now, and new reports are added. */
export function ChartTile({ tile }: { tile: TileOf<'chart'> }) {
  const place = useRef<HTMLDivElement>(null);
  const time = { range: rangeNames[tile.range] };
  const series = tile.series.map(({ device_id: deviceId, property }) => ({ deviceId, property }));
  const model = useChart({ series, time, comparison: null, isLive: true });
  const window = useShownWindow(time, useNow());
  const around = AROUND_PX + (tile.title === undefined ? 0 : TITLE_PX);
  const height = (tile.h * ROW_PX - around) / Math.max(1, model.panes.length) - LEGEND_PX;
  if (model.isLoading) return <Loading what="Loading chart" />;
  const failed = model.series.filter(({ problem }) => problem !== null);
  return (
    <div ref={place} className="chart-tile">
      {model.panes.length === 0 ? (
        failed.length < model.series.length && <p className="quiet">No values in this time.</p>
      ) : (
        <ChartView
          label={tile.title ?? 'Chart'}
          {...{ model, window }}
          marks={[]}
          height={Math.max(LEAST_PX, height)}
          onWindow={ignore}
          onReset={ignore}
        />
      )}
      {failed.map((one) => (
        <p key={one.key} className="quiet small">
          {one.label}: {one.problem?.status === 404 ? 'the device no longer exists.' : one.problem?.message}
        </p>
      ))}
    </div>
  );
}

const BOX = { width: 160, height: 34 };
/** 96 points, from the roll-ups of completed days. */
const TREND_STEP = '15m';

/** The last 24 hours of a property without axes; the value is next to it as a text. */
export function TileTrend({ deviceId, property, name, isStepped }: SeriesId & { name: string; isStepped: boolean }) {
  const requests: readonly HistoryRequest[] = [
    { deviceId, property, time: { range: '24h' }, prefersSamples: false, step: TREND_STEP },
  ];
  const [points] = useHistory(requests, { enabled: true, group: '' }).points;
  useLiveHistory(requests, { enabled: true });
  const to = Math.floor(useNow() / 60_000) * 60_000;
  if (points === undefined) return null;
  const window = { from: to - DAY_MS, to };
  const { numbers, segments, before } = points;
  if (numbers.length === 0 && segments.length > 0) return <StateTrend {...{ segments, window, name }} />;
  const lasting = numbers.map(({ at, last }) => ({ at, value: last }));
  const shown = isStepped ? [...(before === null ? [] : [{ at: 0, value: before }]), ...lasting] : numbers;
  const path = trendPath(shown, { ...window, ...BOX, isBoolean: false, isStepped });
  if (path === '') return <p className="quiet small">Fewer than two values in the last 24 hours.</p>;
  return (
    <svg
      className="tile-trend"
      viewBox={`-2 -2 ${BOX.width + 4} ${BOX.height + 4}`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <path d={path} />
    </svg>
  );
}
