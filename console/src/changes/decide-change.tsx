import { type FormEvent, useId, useState } from 'react';
import type { Problem } from '../api/problem.ts';
import { useChange } from '../api/queries.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError } from '../ui/feedback.tsx';
import { type ChangeRequestEntry, changePath } from './change-request.ts';
import { ChangePreviewRenewed, renewedChangeIn } from './renewed-change.tsx';
import { WeakerList } from './weaker-list.tsx';

// Dialogs that approve or refuse a waiting change.

/** The change request that a dialog shows: the listed one, or the one that has replaced it. */
export type ShownChange = Pick<ChangeRequestEntry, 'id' | 'weaker'>;

interface ApproveChangeProps {
  of: ShownChange;
  /** The state of the request that `onApprove` sends. */
  approve: { error: Problem | null; isPending: boolean };
  onApprove(shown: ShownChange, onError: (problem: Problem | null) => void): void;
  onClose(): void;
}

export function ApproveChange({ of: one, approve, onApprove, onClose: close }: ApproveChangeProps) {
  const [shown, setShown] = useState<ShownChange>(one);
  const renewed = renewedChangeIn(approve.error);
  const showRenewed = (problem: Problem | null): void => {
    const change = renewedChangeIn(problem);
    if (change !== null) setShown({ id: change.change_id, weaker: change.preview.weaker });
  };
  return (
    <Dialog title="Apply this change?" onClose={close}>
      <p>It is applied immediately:</p>
      <WeakerList of={shown.weaker} />
      {renewed !== null && <ChangePreviewRenewed />}
      <ChangeError error={renewed === null ? approve.error : null} />
      <div className="actions">
        <button type="button" className="button" onClick={close}>
          Cancel
        </button>
        <button
          type="button"
          className="button primary"
          disabled={approve.isPending}
          onClick={() => onApprove(shown, showRenewed)}
        >
          Apply change
        </button>
      </div>
    </Dialog>
  );
}

interface RefuseChangeProps {
  of: ShownChange;
  stalePaths: readonly string[];
  onClose(): void;
}

export function RefuseChange({ of: { id }, stalePaths, onClose: close }: RefuseChangeProps) {
  const refuse = useChange(stalePaths);
  const reasonId = useId();
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const reason = `${new FormData(event.currentTarget).get('reason')}`.trim();
    const body = reason === '' ? {} : { reason };
    refuse.mutate({ method: 'POST', path: changePath(id, '/refuse'), body }, { onSuccess: close });
  };
  return (
    <Dialog title="Refuse this change?" onClose={close}>
      <p>The change is not applied.</p>
      <form onSubmit={send}>
        <label htmlFor={reasonId}>Reason (optional, stored with the change)</label>
        <input id={reasonId} name="reason" maxLength={500} autoComplete="off" />
        <ChangeError error={refuse.error} />
        <div className="actions">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className="button danger" disabled={refuse.isPending}>
            Refuse change
          </button>
        </div>
      </form>
    </Dialog>
  );
}
