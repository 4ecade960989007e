import { type FormEvent, useId, useState } from 'react';
import { useChange } from '../api/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError } from '../ui/feedback.tsx';

export function NewRelease() {
  const [open, setOpen] = useState(false);
  const create = useChange(['/v1/firmware']);
  const [typeId, versionId, notesId] = [useId(), useId(), useId()];
  const close = (): void => {
    setOpen(false);
    create.reset();
  };
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const text = (name: string): string => `${given.get(name)}`.trim();
    const notes = text('notes');
    create.mutate(
      {
        method: 'POST',
        path: '/v1/firmware/release',
        body: { device_type: text('device_type'), version: text('version'), ...(notes !== '' && { notes }) },
      },
      { onSuccess: close },
    );
  };
  return (
    <>
      <button type="button" className="button primary" onClick={() => setOpen(true)}>
        New release …
      </button>
      {open && (
        <Dialog title="New release" onClose={close}>
          <form onSubmit={send}>
            <label htmlFor={typeId}>Device type</label>
            <input
              id={typeId}
              name="device_type"
              required
              maxLength={64}
              autoComplete="off"
              placeholder="e.g. smart_light"
            />
            <label htmlFor={versionId}>Version</label>
            <input id={versionId} name="version" required maxLength={64} autoComplete="off" placeholder="e.g. 1.5.0" />
            <label htmlFor={notesId}>Release notes (optional)</label>
            <textarea id={notesId} name="notes" rows={3} maxLength={500} />
            <ChangeError error={create.error} />
            <div className="actions">
              <button type="button" className="button" onClick={close}>
                Cancel
              </button>
              <button type="submit" className="button primary" disabled={create.isPending}>
                Create draft
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
