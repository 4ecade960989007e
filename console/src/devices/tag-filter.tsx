import { type FormEvent, useId, useState } from 'react';
import { Link } from 'wouter';
import { useSession } from '../session.tsx';
import { Note } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import type { ChangeQuery } from '../ui/query-filters.ts';
import {
  MAX_FILTER_NAME,
  MAX_FILTERS,
  parseFilters,
  type SavedFilter,
  withFilter,
  withoutFilter,
} from './saved-filters.ts';
import { TagForm } from './tags.tsx';
import './tags.css';

interface QueryProps {
  query: URLSearchParams;
  change: ChangeQuery;
}

/** Filter of the list of devices by tags, which are in the address, and the filters that the user has saved. */
export const TagFilters = ({ query, change }: QueryProps) => (
  <div className="tag-filters">
    <TagFilter query={query} change={change} />
    <SavedFilters query={query} />
  </div>
);

function TagFilter({ query, change }: QueryProps) {
  const tags = query.getAll('tag');
  const set = (wanted: readonly string[]): void =>
    change((before) => {
      const after = new URLSearchParams(before);
      after.delete('tag');
      for (const tag of new Set(wanted)) after.append('tag', tag);
      return after;
    });
  return (
    <>
      <TagForm
        label="Filter by tag"
        placeholder="Filter by tag"
        submitLabel="Filter"
        except={tags}
        onTag={(tag, clear) => {
          set([...tags, tag]);
          clear();
        }}
      />
      {tags.length > 0 && (
        <ul className="tags" aria-label="Tags of the filter">
          {tags.map((tag) => (
            <li key={tag}>
              {tag}
              <button
                type="button"
                title={`Filter without ${tag}`}
                onClick={() => set(tags.filter((one) => one !== tag))}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** Filters that the user has named, in this browser. */
function SavedFilters({ query }: { query: URLSearchParams }) {
  const { me } = useSession();
  const key = `twinkeep.device-filters.${me.user.id}`;
  const [filters, setFilters] = useState(() => readFilters(key));
  const [name, setName] = useState('');
  const [isFull, setFull] = useState(false);
  const inputId = useId();
  const current = `${query}`;
  const store = (next: SavedFilter[]): void => {
    setFilters(next);
    try {
      localStorage.setItem(key, JSON.stringify(next));
    } catch {
      // Without storage the filters last until the page is closed.
    }
  };
  const save = (event: FormEvent): void => {
    event.preventDefault();
    // Another tab may have saved one since.
    const next = withFilter(readFilters(key), { name: name.trim(), query: current });
    setFull(next === null);
    if (next === null) return;
    store(next);
    setName('');
  };
  return (
    <>
      {filters.length > 0 && (
        <ul className="tags" aria-label="Saved filters">
          {filters.map((filter) => (
            <li key={filter.name}>
              <Link href={`/devices?${filter.query}`}>{filter.name}</Link>
              <button
                type="button"
                title={`Delete filter ${filter.name}`}
                onClick={() => store(withoutFilter(readFilters(key), filter.name))}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {current !== '' && (
        <form className="tag-form" onSubmit={save}>
          <label htmlFor={inputId} className="unseen">
            Name of the filter
          </label>
          <input
            id={inputId}
            placeholder="Name of the filter"
            maxLength={MAX_FILTER_NAME}
            pattern=".*\S.*"
            required
            value={name}
            onChange={({ target }) => setName(target.value)}
          />
          <button type="submit" className="button">
            Save filter
          </button>
        </form>
      )}
      {(current !== '' || filters.length > 0) && (
        <p className="quiet small">Saved filters are kept in this browser only.</p>
      )}
      {isFull && <Note tone="bad">{`There are ${MAX_FILTERS} saved filters. Delete one first.`}</Note>}
    </>
  );
}

function readFilters(key: string): SavedFilter[] {
  try {
    return parseFilters(localStorage.getItem(key));
  } catch {
    return [];
  }
}
