import { useId } from 'react';
import { fromLocalInput, toLocalInput } from '../ui/local-time.ts';
import { zone } from '../ui/time.tsx';
import {
  type ChartQuery,
  type ComparisonName,
  comparisons,
  panned,
  rangeNames,
  ranges,
  type TimeWindow,
  zoomed,
} from './chart-window.ts';

interface ToolbarProps {
  view: ChartQuery;
  window: TimeWindow;
  /** Sets parameters of the address; null removes one. */
  change(values: Readonly<Record<string, string | null>>): void;
  onWindow(window: TimeWindow): void;
}

/** Range, zoom, comparison and kind of a chart. */
export function ChartToolbar({ view, window, change, onWindow }: ToolbarProps) {
  const comparison = useId();
  return (
    <div className="chart-toolbar">
      <fieldset className="chips">
        <legend className="unseen">Range</legend>
        {rangeNames.map((name) => (
          <button
            key={name}
            type="button"
            className="chip"
            aria-pressed={view.range === name}
            onClick={() => change({ range: name, from: null, to: null })}
          >
            {ranges[name].label}
          </button>
        ))}
        <OwnRange view={view} window={window} change={change} />
      </fieldset>
      <fieldset className="chips">
        <legend className="unseen">Shown time</legend>
        <button type="button" className="chip" onClick={() => onWindow(panned(window, -0.5))}>
          ‹ Earlier
        </button>
        <button type="button" className="chip" onClick={() => onWindow(panned(window, 0.5))}>
          Later ›
        </button>
        <button type="button" className="chip" aria-label="Zoom in" onClick={() => onWindow(zoomed(window, 0.5))}>
          +
        </button>
        <button type="button" className="chip" aria-label="Zoom out" onClick={() => onWindow(zoomed(window, 2))}>
          −
        </button>
      </fieldset>
      <div className="chart-choice">
        <label htmlFor={comparison}>Compare with</label>
        <select
          id={comparison}
          value={view.comparison ?? ''}
          onChange={({ target }) => change({ compare: target.value })}
        >
          <option value="">nothing</option>
          {(Object.keys(comparisons) as ComparisonName[]).map((name) => (
            <option key={name} value={name}>
              {comparisons[name].label.toLowerCase()}
            </option>
          ))}
        </select>
      </div>
      <label className="chart-check">
        <input
          type="checkbox"
          checked={view.showsEvents}
          onChange={({ target }) => change({ events: target.checked ? null : 'no' })}
        />
        Events
      </label>
    </div>
  );
}

function OwnRange({ view, window, change }: Pick<ToolbarProps, 'view' | 'window' | 'change'>) {
  const [from, to] = [useId(), useId()];
  const shown = view.fixed ?? window;
  const set = (limits: { from?: string; to?: string }): void => {
    const start = limits.from || new Date(shown.from).toISOString();
    const end = limits.to || new Date(shown.to).toISOString();
    if (Date.parse(start) < Date.parse(end)) change({ from: start, to: end, range: null });
  };
  return (
    <details className="own-range">
      <summary className="chip" data-chosen={view.fixed !== null}>
        Own range
      </summary>
      <div className="card">
        <div>
          <label htmlFor={from}>From ({zone})</label>
          <input
            id={from}
            type="datetime-local"
            value={toLocalInput(new Date(shown.from).toISOString())}
            onChange={({ target }) => set({ from: fromLocalInput(target.value) })}
          />
        </div>
        <div>
          <label htmlFor={to}>To ({zone})</label>
          <input
            id={to}
            type="datetime-local"
            value={toLocalInput(new Date(shown.to).toISOString())}
            onChange={({ target }) => set({ to: fromLocalInput(target.value) })}
          />
        </div>
      </div>
    </details>
  );
}
