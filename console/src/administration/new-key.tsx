import { type FormEvent, useId, useState } from 'react';
import { ALL_SCOPES, scopeResources, scopeVerbs } from '../../../src/domain/scopes.ts';
import { useChange } from '../api/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError } from '../ui/feedback.tsx';
import type { CreatedKey } from './created-key.ts';
import { RestrictionFields, restrictionIn } from './restriction-fields.tsx';

const KEYS = '/v1/auth/api-keys';

const offered = scopeVerbs.flatMap((verb) => [`${verb}:*`, ...scopeResources.map((resource) => `${verb}:${resource}`)]);

export function NewKey({ onCreated }: { onCreated(key: CreatedKey): void }) {
  const [open, setOpen] = useState(false);
  const create = useChange<CreatedKey>([KEYS]);
  const [isEverything, setEverything] = useState(false);
  const [nameId, endId] = [useId(), useId()];
  const close = (): void => {
    setOpen(false);
    setEverything(false);
    create.reset();
  };
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const until = `${given.get('until') ?? ''}`;
    const restriction = restrictionIn(given);
    create.mutate(
      {
        method: 'POST',
        path: KEYS,
        body: {
          name: given.get('name'),
          scopes: isEverything ? [ALL_SCOPES] : given.getAll('scope'),
          ...(restriction !== null && { restrict_to: restriction }),
          // End of that day in the user's time zone.
          ...(until !== '' && { expires_at: new Date(`${until}T23:59:59`).toISOString() }),
        },
      },
      {
        onSuccess(key) {
          close();
          onCreated(key);
        },
      },
    );
  };
  return (
    <>
      <button type="button" className="button primary" onClick={() => setOpen(true)}>
        New key …
      </button>
      {open && (
        <Dialog title="New API key" onClose={close}>
          <form onSubmit={send}>
            <label htmlFor={nameId}>Name</label>
            <input id={nameId} name="name" required maxLength={100} autoComplete="off" placeholder="e.g. Night shift" />
            <label htmlFor={endId}>Last valid day (optional)</label>
            <input id={endId} name="until" type="date" />
            <fieldset className="checks">
              <legend>Permissions</legend>
              <label>
                <input type="radio" name="permissions" checked={!isEverything} onChange={() => setEverything(false)} />{' '}
                Only the scopes below
              </label>
              <label>
                <input type="radio" name="permissions" checked={isEverything} onChange={() => setEverything(true)} />{' '}
                Everything that your role allows
              </label>
            </fieldset>
            <fieldset className="checks" disabled={isEverything}>
              <legend>Scopes</legend>
              {offered.map((scope) => (
                <label key={scope}>
                  <input type="checkbox" name="scope" value={scope} /> <code>{scope}</code>
                </label>
              ))}
            </fieldset>
            <RestrictionFields />
            <ChangeError error={create.error} />
            <div className="actions">
              <button type="button" className="button" onClick={close}>
                Cancel
              </button>
              <button type="submit" className="button primary" disabled={create.isPending}>
                Create key
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
