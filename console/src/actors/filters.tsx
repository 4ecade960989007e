import { type ReactNode, useId } from 'react';
import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { Machine } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { humanize } from '../ui/text-format.ts';
import { kinds, plural } from './actor-display.ts';
import type { ActorListFilter } from './live-actor-list.ts';

type ChangeQuery = (change: (before: URLSearchParams) => URLSearchParams, options?: { replace?: boolean }) => void;

/** Filters are in the URL, so that they can be bookmarked and shared. */
export function filterFrom(query: URLSearchParams): ActorListFilter {
  const kind = kinds.find((known) => known === query.get('kind'));
  const state = query.get('state');
  return {
    ...(kind !== undefined && { kind }),
    ...(kind !== undefined && state !== null && { state }),
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
  const set = (values: Record<string, string | null>): void =>
    change(
      (before) => {
        const after = new URLSearchParams(before);
        for (const [name, value] of Object.entries(values)) {
          if (value === null || value === '') after.delete(name);
          else after.set(name, value);
        }
        return after;
      },
      { replace: true },
    );
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
          disabled={kind === undefined}
          onChange={({ target }) => set({ state: target.value })}
        >
          <option value="">{kind === undefined ? 'Any state (select a kind)' : 'Any state'}</option>
          {kind !== undefined && <States kind={kind} />}
        </select>
      </div>
      <div>
        <label htmlFor={findId} className="unseen">
          Search by name or ID
        </label>
        <input
          id={findId}
          type="search"
          placeholder="Search by name or ID"
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

function States({ kind }: { kind: ActorKind }) {
  const { data } = useGet<{ machine: Machine }>(`/v1/machines/${kind}`);
  return data?.machine.states
    .filter(
      ({ type, state }) => type !== 'parallel' && !state.endsWith('unregistered') && !isRegion(data.machine, state),
    )
    .map(({ state }) => (
      <option key={state} value={state}>
        {humanize(state).replaceAll('.', ' › ')}
      </option>
    ));
}

const isRegion = ({ type }: Machine, state: string): boolean => type === 'parallel' && !state.includes('.');
