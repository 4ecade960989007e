import type { Machine } from '../api/answer-types.ts';
import { humanize } from '../ui/text-format.ts';
import { type HistoryState, isActive } from './history-state.ts';

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
            <strong>{humanize(state).replaceAll('.', ' › ')}</strong>
            {isActive(state, historyState) && ' (current)'}
            {final && ' (final)'}
            {description !== '' && ` – ${description}`}
            {events.length > 0 && <span className="quiet small"> Events: {events.join(', ')}.</span>}
          </li>
        ))}
    </ul>
  </details>
);
