import { useEffect, useId, useRef, useState } from 'react';
import type { listMembers } from '../../../src/operations/identity/members.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { deviceNameOf } from '../devices/device-name.tsx';
import { useAllDevices } from '../devices/use-all-devices.ts';
import { useSession } from '../session.tsx';
import { type ChangeQuery, setFilters } from '../ui/query-filters.ts';
import { abbreviateId } from '../ui/text-format.ts';
import { TimeRange } from '../ui/time-range.tsx';
import { actionNamed, actionTitle, namesSeveral, showsPages, subjectNamed, subjectsByTitle } from './audit-names.ts';

/** A text filter is applied when the user has not typed for this time. */
const TYPING_MS = 400;

interface AuditFiltersProps {
  query: URLSearchParams;
  change: ChangeQuery;
  platform: boolean;
  /** Actions of the entries that were loaded. */
  actions: ReadonlySet<string>;
  /** Subject → title of the entries that were loaded. */
  targets: ReadonlyMap<string, string>;
}

/** Filters of the audit log. */
export function AuditFilters({ query, change, platform, actions, targets }: AuditFiltersProps) {
  const { may } = useSession();
  const userId = useId();
  const [needsDevices, setNeedsDevices] = useState(false);
  const canRead = !platform && may('admin');
  const { data } = useGet<ResponseBody<typeof listMembers>>('/v1/tenant/members?limit=200', { enabled: canRead });
  const devices = useAllDevices({ enabled: canRead && needsDevices });
  const set = (name: string, value: string): void => setFilters(change, { [name]: value });
  const people = data?.members.filter(({ status }) => status === 'active') ?? [];
  const known = subjectsByTitle(
    new Map([...targets, ...devices.rows.map((device) => [`device:${device.id}`, deviceNameOf(device)] as const)]),
  );
  const subject = query.get('subject');
  return (
    <search className="fields-row">
      {people.length > 0 && (
        <div>
          <label htmlFor={userId}>User</label>
          <select id={userId} value={query.get('by') ?? ''} onChange={({ target }) => set('by', target.value)}>
            <option value="">Any user</option>
            {people.map(({ id, email }) => (
              <option key={id} value={id}>
                {email ?? abbreviateId(id)}
              </option>
            ))}
          </select>
        </div>
      )}
      <NameFilter
        label="Action"
        placeholder="e.g. Command device"
        isApplied={query.has('action')}
        initial={actionTitle(query.get('action') ?? '')}
        names={[...actions].map(actionTitle).sort()}
        apply={(text) => {
          set('action', actionNamed(text, actions));
          return null;
        }}
      />
      <NameFilter
        label="Target"
        placeholder="e.g. Desk lamp"
        isApplied={query.has('subject')}
        initial={[...known].find(([, one]) => one === subject)?.[0] ?? subject ?? ''}
        names={[...known.keys()].sort()}
        onFocus={() => setNeedsDevices(true)}
        isLoading={devices.isLoading}
        apply={(text) => {
          const named = subjectNamed(text, known);
          if (named !== null) set('subject', named);
          if (named !== null) return null;
          return namesSeveral(text, known)
            ? 'Several entries have this name. Choose one from the list.'
            : 'No entry with this name.';
        }}
      />
      <TimeRange query={query} change={change} />
      <label className="audit-pages">
        <input
          type="checkbox"
          checked={showsPages(query)}
          disabled={query.has('action')}
          onChange={({ target }) => set('pages', target.checked ? 'true' : '')}
        />
        Show sign-ins and tickets of pages
      </label>
    </search>
  );
}

interface NameFilterProps {
  label: string;
  placeholder: string;
  initial: string;
  /** Whether the list has the filter. */
  isApplied: boolean;
  /** Suggestions. */
  names: readonly string[];
  onFocus?(): void;
  /** More names are being loaded: a text may then name several. */
  isLoading?: boolean;
  /** Applies the filter and returns null, or returns why the text names nothing. */
  apply(text: string): string | null;
}

/** A filter by a name, applied when the user stops typing. */
function NameFilter(props: NameFilterProps) {
  const { label, placeholder, initial, isApplied, names, onFocus, isLoading = false, apply } = props;
  const [id, listId, noteId] = [useId(), useId(), useId()];
  const [text, setText] = useState(initial);
  const [problem, setProblem] = useState<string | null>(null);
  const latest = useRef(apply);
  latest.current = apply;
  const isEdited = useRef(false);
  // The names that a text is compared with may arrive after it.
  const numberOfNames = names.length;
  // biome-ignore lint/correctness/useExhaustiveDependencies: applied again when there are more names
  useEffect(() => {
    if (!isEdited.current || isLoading) return;
    const timer = setTimeout(() => {
      const found = latest.current(text);
      isEdited.current = found !== null;
      setProblem(found);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, numberOfNames, isLoading]);
  // The filter was removed by a link to the page or by the browser's history.
  useEffect(() => {
    if (!isApplied && !isEdited.current) setText('');
  }, [isApplied]);
  return (
    <div>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        list={listId}
        placeholder={placeholder}
        autoComplete="off"
        value={text}
        {...(problem !== null && { 'aria-describedby': noteId })}
        onFocus={onFocus}
        onChange={({ target }) => {
          isEdited.current = true;
          setText(target.value);
        }}
      />
      <datalist id={listId}>
        {names.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      {problem !== null && (
        <p id={noteId} className="quiet small" role="status">
          {problem}
        </p>
      )}
    </div>
  );
}
