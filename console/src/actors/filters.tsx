import { type ReactNode, useId } from 'react';
import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { Machine } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { type ChangeQuery, setFilters } from '../ui/query-filters.ts';
import { kinds, plural } from './actor-display.ts';
import type { ActorListFilter } from './live-actor-list.ts';
import { pathTitle } from './machine-words.ts';

export function filterFrom(query: URLSearchParams): ActorListFilter {
  const kind = kinds.find((known) => known === query.get('kind'));
  const state = query.get('state');
  return {
    ...(kind !== undefined && { kind }),
    ...(state !== null && state !== '' && { state }),
    ...(query.get('held') === 'true' && { quarantined: true }),
  };
}

export function Filters({
  query,
  change,
  children,
}: {
  query: URLSearchParams;
  change: ChangeQuery;
  children: ReactNode;
}) {
  const { kind, state = '', quarantined = false } = filterFrom(query);
  const [stateId, findId] = [useId(), useId()];
  const set = (values: Record<string, string | null>): void => setFilters(change, values);
  return (
    <search className="filters">
      <fieldset>
        <legend className="unseen">Kind</legend>
        {([null, ...kinds] as const).map((one) => (
          <label key={one} className="choice">
            <input
              type="radio"
              name="kind"
              checked={one === (kind ?? null)}
              onChange={() => set({ kind: one, state: null })}
            />
            <span>{one === null ? 'All' : plural[one]}</span>
          </label>
        ))}
      </fieldset>
      <div>
        <label htmlFor={stateId} className="unseen">
          State
        </label>
        <select
          id={stateId}
          value={state}
          onChange={({ target }) => {
            // Without a chosen kind, the options name theirs.
            const [chosen, inKind] = target.value.split(' ');
            set(inKind === undefined ? { state: target.value } : { kind: chosen ?? null, state: inKind });
          }}
        >
          <option value="">Any state</option>
          {state !== '' && kind === undefined && <option value={state}>{pathTitle(state)}</option>}
          {kind === undefined ? (
            kinds.map((one) => (
              <optgroup key={one} label={plural[one]}>
                <States kind={one} chosen="" namesKind />
              </optgroup>
            ))
          ) : (
            <States kind={kind} chosen={state} />
          )}
        </select>
      </div>
      <div>
        <label htmlFor={findId} className="unseen">
          Search by name or ID
        </label>
        <input
          id={findId}
          type="search"
          placeholder="Name or ID"
          value={query.get('find') ?? ''}
          onChange={({ target }) => set({ find: target.value })}
        />
      </div>
      <label className="check">
        <input
          type="checkbox"
          checked={quarantined}
          onChange={({ target }) => set({ held: target.checked ? 'true' : null })}
        />
        Quarantined only
      </label>
      {children}
    </search>
  );
}

/** The states of a kind. A chosen state is among them also if it is written in another way: `online`, `active,online`. */
function States({ kind, chosen, namesKind = false }: { kind: ActorKind; chosen: string; namesKind?: boolean }) {
  const { data } = useGet<{ machine: Machine }>(`/v1/machines/${kind}`);
  const states = (data?.machine.states ?? [])
    .filter(
      ({ type, state }) =>
        type !== 'parallel' && !state.endsWith('unregistered') && !(data && isRegion(data.machine, state)),
    )
    .map(({ state }) => state);
  const all = chosen === '' || states.includes(chosen) ? states : [chosen, ...states];
  return all.map((state) => (
    <option key={state} value={namesKind ? `${kind} ${state}` : state}>
      {pathTitle(state)}
    </option>
  ));
}

const isRegion = ({ type }: Machine, state: string): boolean => type === 'parallel' && !state.includes('.');
