import type { Machine } from '../api/answer-types.ts';
import { type HistoryState, isActive } from './history-state.ts';
import { eventTitle, pathTitle } from './machine-words.ts';

/** The statechart as text. */
export const StateTable = ({ machine, historyState }: { machine: Machine; historyState: HistoryState }) => (
  <details className="state-table">
    <summary>All states</summary>
    <p className="quiet">{machine.description}</p>
    <ul>
      {machine.states
        .filter(({ state }) => machine.type !== 'parallel' || state.includes('.'))
        .map(({ state, description, events, final }) => (
          <li key={state}>
            <strong>{pathTitle(state)}</strong>
            {isActive(state, historyState) && ' (current)'}
            {final && ' (final)'}
            {description !== '' && ` – ${description}`}
            {events.length > 0 && (
              <span className="quiet small">
                {' '}
                Events: {events.map((event) => `${eventTitle(machine.kind, event)} (${event})`).join(', ')}.
              </span>
            )}
          </li>
        ))}
    </ul>
  </details>
);
