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
export const TagSuggestions = ({ id, except }: { id: string; except: readonly string[] }) => (
  <datalist id={id}>
    {useTags()
      .data?.tags.filter(({ tag }) => !except.includes(tag))
      .map(({ tag }) => (
        <option key={tag} value={tag} />
      ))}
  </datalist>
);

/** The tags of a device; admins add and remove them. */
export function DeviceTags({ device: { id, tags } }: { device: DeviceRecord }) {
  const { may } = useSession();
  const { mutate, isPending, error } = useChange([`/v1/devices`, '/v1/tags']);
  const [added, setAdded] = useState('');
  const [inputId, listId] = [useId(), useId()];
  const path = `/v1/devices/${id}`;
  const add = (event: FormEvent): void => {
    event.preventDefault();
    mutate({ method: 'PATCH', path, body: { add_tags: [added.trim()] } }, { onSuccess: () => setAdded('') });
  };
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
        <form className="tag-form" onSubmit={add}>
          <label htmlFor={inputId} className="unseen">
            New tag
          </label>
          <input
            id={inputId}
            list={listId}
            placeholder="New tag, such as floor:2"
            maxLength={32}
            required
            value={added}
            onChange={({ target }) => setAdded(target.value)}
          />
          <TagSuggestions id={listId} except={tags} />
          <button type="submit" className="button" disabled={isPending}>
            Add tag
          </button>
        </form>
      )}
      <ChangeError error={error} />
    </section>
  );
}
