import { useId } from 'react';
import { fromLocalInput, toLocalInput } from './local-time.ts';
import { type ChangeQuery, setFilters } from './query-filters.ts';
import { zone } from './time.tsx';

interface TimeRangeProps {
  query: URLSearchParams;
  change: ChangeQuery;
}

/** The filters `from` and `to` of a list, as ISO times in the address. */
export const TimeRange = (props: TimeRangeProps) => (
  <>
    <TimeField label="From" name="from" {...props} />
    <TimeField label="To" name="to" {...props} />
  </>
);

function TimeField({ label, name, query, change }: TimeRangeProps & { label: string; name: string }) {
  const id = useId();
  return (
    <div>
      <label htmlFor={id}>
        {label} ({zone})
      </label>
      <input
        id={id}
        type="datetime-local"
        value={toLocalInput(query.get(name))}
        onChange={({ target }) => setFilters(change, { [name]: fromLocalInput(target.value) })}
      />
    </div>
  );
}
