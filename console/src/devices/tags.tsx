import { type FormEvent, useId, useState } from 'react';
import { Link } from 'wouter';
import type { listTags } from '../../../src/operations/devices/tags.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useChange, useGet } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { ChangeError } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import type { DeviceRecord } from './device-name.tsx';
import './tags.css';

/** The tags of the tenant's devices, with the number of their devices. */
export const useTags = (enabled = true) => useGet<ResponseBody<typeof listTags>>('/v1/tags?limit=200', { enabled });

/** Suggestions for an input with the attribute `list`. */
const TagSuggestions = ({ id, except }: { id: string; except: readonly string[] }) => (
  <datalist id={id}>
    {useTags()
      .data?.tags.filter(({ tag }) => !except.includes(tag))
      .map(({ tag }) => (
        <option key={tag} value={tag} />
      ))}
  </datalist>
);

interface TagFormProps {
  label: string;
  placeholder: string;
  submitLabel: string;
  /** Tags that are not suggested. */
  except: readonly string[];
  isPending?: boolean;
  /** Called with the entered tag, and with a function that empties the field. */
  onTag(tag: string, clear: () => void): void;
}

/** A field for one tag, with suggestions. */
export function TagForm({ label, placeholder, submitLabel, except, isPending = false, onTag }: TagFormProps) {
  const [tag, setTag] = useState('');
  const [inputId, listId] = [useId(), useId()];
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onTag(tag.trim(), () => setTag(''));
  };
  return (
    <form className="tag-form" onSubmit={submit}>
      <label htmlFor={inputId} className="unseen">
        {label}
      </label>
      <input
        id={inputId}
        list={listId}
        placeholder={placeholder}
        maxLength={32}
        required
        value={tag}
        onChange={({ target }) => setTag(target.value)}
      />
      <TagSuggestions id={listId} except={except} />
      <button type="submit" className="button" disabled={isPending}>
        {submitLabel}
      </button>
    </form>
  );
}

/** The tags of a device; admins add and remove them. */
export function DeviceTags({ device: { id, tags } }: { device: DeviceRecord }) {
  const { may } = useSession();
  const { mutate, isPending, error } = useChange([`/v1/devices`, '/v1/tags']);
  const path = `/v1/devices/${id}`;
  return (
    <section className="card" aria-labelledby="tags">
      <header>
        <h2 id="tags">Tags</h2>
      </header>
      {tags.length === 0 ? (
        <p className="quiet">No tags.</p>
      ) : (
        <ul className="tags">
          {tags.map((tag) => (
            <li key={tag}>
              <Link href={`/devices?tag=${encodeURIComponent(tag)}`}>{tag}</Link>
              {may('admin') && (
                <button
                  type="button"
                  title={`Remove tag ${tag}`}
                  disabled={isPending}
                  onClick={() => mutate({ method: 'PATCH', path, body: { remove_tags: [tag] } })}
                >
                  <Icon name="close" />
                </button>
              )}
            </li>
          ))}
        </ul>
      )}
      {may('admin') && (
        <TagForm
          label="New tag"
          placeholder="New tag, such as floor:2"
          submitLabel="Add tag"
          except={tags}
          isPending={isPending}
          onTag={(tag, clear) => mutate({ method: 'PATCH', path, body: { add_tags: [tag] } }, { onSuccess: clear })}
        />
      )}
      <ChangeError error={error} />
    </section>
  );
}
