import type { Machine } from '../api/answer-types.ts';
import { humanize } from '../ui/text-format.ts';
import { isActive, type Moment } from './moment.ts';

/** The chart in words. */
export const StateTable = ({ machine, moment }: { machine: Machine; moment: Moment }) => (
  <details className="state-table">
    <summary>All its states in words</summary>
    <p className="quiet">{machine.description}</p>
    <ul>
      {machine.states
        .filter(({ state }) => machine.type !== 'parallel' || state.includes('.'))
        .map(({ state, description, events, final }) => (
          <li key={state}>
            <strong>{humanize(state).replaceAll('.', ' › ')}</strong>
            {isActive(state, moment) && ' (it is here)'}
            {final && ' (final)'}
            {description !== '' && ` – ${description}`}
            {events.length > 0 && <span className="quiet small"> Takes {events.join(', ')}.</span>}
          </li>
        ))}
    </ul>
  </details>
);
