import { type FormEvent, useId, useState } from 'react';
import { scopeResources, scopeVerbs } from '../../../src/domain/scopes.ts';
import { useChange } from '../api/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError } from '../ui/feedback.tsx';
import type { CreatedKey } from './created-key.ts';

const KEYS = '/v1/auth/api-keys';

const offered = scopeVerbs.flatMap((verb) => [`${verb}:*`, ...scopeResources.map((resource) => `${verb}:${resource}`)]);

export function NewKey({ made }: { made(key: CreatedKey): void }) {
  const [open, setOpen] = useState(false);
  const create = useChange<CreatedKey>([KEYS]);
  const [nameId, endId] = [useId(), useId()];
  const close = (): void => {
    setOpen(false);
    create.reset();
  };
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const until = `${given.get('until') ?? ''}`;
    create.mutate(
      {
        method: 'POST',
        path: KEYS,
        body: {
          name: given.get('name'),
          scopes: given.getAll('scope'),
          // To the end of that day, where the reader is.
          ...(until !== '' && { expires_at: new Date(`${until}T23:59:59`).toISOString() }),
        },
      },
      {
        onSuccess(key) {
          close();
          made(key);
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
        <Dialog title="A new key" onClose={close}>
          <form onSubmit={send}>
            <label htmlFor={nameId}>Its name</label>
            <input id={nameId} name="name" required maxLength={100} autoComplete="off" placeholder="As Night shift" />
            <label htmlFor={endId}>Last day (may be left empty)</label>
            <input id={endId} name="until" type="date" />
            <fieldset className="checks">
              <legend>Scopes (none: all that your role allows)</legend>
              {offered.map((scope) => (
                <label key={scope}>
                  <input type="checkbox" name="scope" value={scope} /> <code>{scope}</code>
                </label>
              ))}
            </fieldset>
            <ChangeError error={create.error} />
            <div className="actions">
              <button type="button" className="button" onClick={close}>
                Back
              </button>
              <button type="submit" className="button primary" disabled={create.isPending}>
                Make it
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
