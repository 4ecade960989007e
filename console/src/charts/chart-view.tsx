import { type KeyboardEvent, useId, useMemo, useRef, useState } from 'react';
import { useNow } from '../ui/clock.ts';
import { fullTime } from '../ui/time.tsx';
import { panned, type TimeWindow, zoomed } from './chart-window.ts';
import { MarkStrip } from './mark-strip.tsx';
import { Plot } from './plot.tsx';
import { AXIS_PX, colourName, PADDING_PX, TIME_AXIS_PX } from './plot-options.ts';
import { cursorTimes, lastText, textAt } from './readout.ts';
import { stateName } from './state-band.ts';
import type { ChartModel, ChartPane, ShownSeries } from './use-chart.ts';
import type { ChartMark } from './use-marks.ts';
import { useWidth } from './use-width.ts';
import './charts.css';

const STATE_PX = 34;
const PAN_SHARE = 0.25;
const ZOOM_FACTOR = 1.5;

interface ChartViewProps {
  /** Accessible name. */
  label: string;
  model: ChartModel;
  window: TimeWindow;
  marks: readonly ChartMark[];
  /** Height of a pane of numbers, in pixels. */
  height: number;
  onWindow(window: TimeWindow): void;
  /** Back to the range that was chosen. */
  onReset(): void;
}

/** The panes of a chart on one time axis, with a cursor that the pointer and the arrow keys move. */
export function ChartView({ label, model, window, marks, height, onWindow, onReset }: ChartViewProps) {
  const { panes, series, shift } = model;
  const [cursor, setCursor] = useState<number | null>(null);
  const [announced, setAnnounced] = useState('');
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place) - AXIS_PX - PADDING_PX;
  const help = useId();
  useNow();
  const times = useMemo(() => cursorTimes(series), [series]);
  const markTimes = useMemo(() => marks.map(({ at }) => at), [marks]);
  const moveTo = (time: number | null): void => {
    setCursor(time);
    if (time === null) return;
    if (time < window.from || time > window.to)
      onWindow(panned(window, (time - (window.from + window.to) / 2) / (window.to - window.from)));
    setAnnounced(
      `${fullTime(time)}: ${series.map((one) => `${nameIn(one, series)} ${textAt(one, time) ?? 'no value'}`).join('; ')}`,
    );
  };
  const callbacks = { onCursor: setCursor, onWindow, onReset };
  return (
    <div
      ref={place}
      className="history-chart"
      role="application"
      aria-roledescription="chart"
      aria-label={label}
      aria-describedby={help}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move the cursor
      tabIndex={0}
      onKeyDown={(event) => onKey(event, { window, cursor, times, moveTo, onWindow, onReset })}
    >
      <p id={help} className="unseen">
        Arrow keys move the cursor to the next value, Home and End to the first and the last one. Shift with an arrow
        key moves the time, plus and minus zoom, and Escape resets. The table has the same values.
      </p>
      <p className="unseen" role="status" aria-live="polite">
        {announced}
      </p>
      <p className="chart-time small quiet" aria-hidden="true">
        {cursor === null ? `${fullTime(window.from)} – ${fullTime(window.to)}` : fullTime(cursor)}
      </p>
      {marks.length > 0 && <MarkStrip {...{ marks, window, width, onWindow }} />}
      {panes.map((pane, index) => {
        const showsTimes = index === panes.length - 1;
        const own = pane.content.kind === 'states' ? STATE_PX : height;
        return (
          <figure key={pane.key} className="chart-pane">
            <Legend pane={pane} all={series} cursor={cursor} shift={shift} />
            <Plot
              {...{ window, cursor, showsTimes, callbacks }}
              pane={pane.content}
              marks={markTimes}
              height={own + (showsTimes ? TIME_AXIS_PX : 0)}
            />
          </figure>
        );
      })}
    </div>
  );
}

/** With several devices, the name of each is part of the name of its series. */
export const nameIn = ({ deviceId, deviceName, label }: ShownSeries, all: readonly ShownSeries[]): string =>
  all.some((other) => other.deviceId !== deviceId) ? `${deviceName}: ${label}` : label;

interface LegendProps {
  pane: ChartPane;
  all: readonly ShownSeries[];
  cursor: number | null;
  shift: number;
}

/** The series of a pane, with their values at the cursor or the newest ones. */
const Legend = ({ pane: { series, content }, all, cursor, shift }: LegendProps) => (
  <figcaption>
    <ul className="chart-legend">
      {series.map((one) => (
        <li key={one.key}>
          {content.kind === 'numbers' && <Swatch colour={one.colour} />}
          <span>{nameIn(one, all)}</span>
          <strong>{(cursor === null ? lastText(one) : textAt(one, cursor)) ?? '—'}</strong>
          {shift > 0 && cursor !== null && one.compared !== undefined && (
            <span className="quiet">earlier {textAt({ ...one, points: one.compared }, cursor - shift) ?? '—'}</span>
          )}
        </li>
      ))}
      {content.kind === 'states' &&
        content.colours.known().map(([state, colour]) => (
          <li key={stateName(state)} className="quiet">
            <Swatch colour={colour} />
            {stateName(state)}
          </li>
        ))}
    </ul>
  </figcaption>
);

/** The colour of a series or of a state, next to its name. */
export const Swatch = ({ colour }: { colour: number }) => (
  <span className="swatch" style={{ background: `var(${colourName(colour)})` }} aria-hidden="true" />
);

interface KeyActions {
  window: TimeWindow;
  cursor: number | null;
  /** Times that have a value. */
  times: readonly number[];
  moveTo(time: number | null): void;
  onWindow(window: TimeWindow): void;
  onReset(): void;
}

function onKey(event: KeyboardEvent, actions: KeyActions): void {
  const { key, shiftKey, target, currentTarget, ctrlKey, metaKey, altKey } = event;
  // A link or a button among the events has its own keys.
  if (target !== currentTarget || ctrlKey || metaKey || altKey) return;
  const done = actionOf(key, shiftKey, actions);
  if (done === null) return;
  event.preventDefault();
  done();
}

function actionOf(key: string, shiftKey: boolean, actions: KeyActions): (() => void) | null {
  const { window, cursor, times, moveTo, onWindow, onReset } = actions;
  const visible = times.filter((time) => time >= window.from && time <= window.to);
  if (shiftKey && key === 'ArrowLeft') return () => onWindow(panned(window, -PAN_SHARE));
  if (shiftKey && key === 'ArrowRight') return () => onWindow(panned(window, PAN_SHARE));
  switch (key) {
    case 'ArrowLeft':
      return () => moveTo((cursor === null ? visible : times.filter((time) => time < cursor)).at(-1) ?? cursor);
    case 'ArrowRight':
      return () => moveTo((cursor === null ? visible.at(-1) : times.find((time) => time > cursor)) ?? cursor);
    case 'Home':
      return () => moveTo(visible[0] ?? cursor);
    case 'End':
      return () => moveTo(visible.at(-1) ?? cursor);
    case '+':
      return () => onWindow(zoomed(window, 1 / ZOOM_FACTOR, cursor ?? undefined));
    case '-':
      return () => onWindow(zoomed(window, ZOOM_FACTOR, cursor ?? undefined));
    case 'Escape':
      return () => {
        moveTo(null);
        onReset();
      };
    default:
      return null;
  }
}
