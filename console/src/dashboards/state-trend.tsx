import type { TimeWindow } from '../charts/chart-window.ts';
import { colourName } from '../charts/plot-options.ts';
import type { StateSegment } from '../charts/points.ts';
import { StateColours } from '../charts/state-band.ts';
import { shownStateName, shownStates, statesInWindow } from './state-shares.ts';

/** Narrower parts have no room for a text. */
const LEAST_LABELLED = 0.25;

interface StateTrendProps {
  segments: readonly StateSegment[];
  window: TimeWindow;
  /** Of the property, which decides how its states are called. */
  name: string;
}

/** The states of a text or boolean over time as a band, and the share of each as a text. */
export function StateTrend({ segments, window, name }: StateTrendProps) {
  const colours = new StateColours().add(segments);
  const colourOf = (state: Parameters<typeof shownStateName>[1]): string => {
    const colour = colours.numberOf(state);
    return `var(${colour === null ? '--strong-line' : colourName(colour)})`;
  };
  return (
    <>
      <div className="tile-band" aria-hidden="true">
        {statesInWindow(segments, window).map(({ state, from, width }) => (
          <span
            key={from}
            data-state={state === false ? 'no' : 'yes'}
            style={{ left: `${from * 100}%`, width: `${width * 100}%`, '--state': colourOf(state) } as object}
          >
            {width >= LEAST_LABELLED && shownStateName(name, state)}
          </span>
        ))}
      </div>
      <ul className="tile-states small quiet" aria-label="Last 24 hours">
        {shownStates(segments, window).map(({ state, share }) => (
          <li key={`${state}`}>
            <span className="swatch" style={{ background: colourOf(state) }} aria-hidden="true" />
            {shownStateName(name, state)} {share}
          </li>
        ))}
      </ul>
    </>
  );
}
