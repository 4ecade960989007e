import { useState } from 'react';
import type { Problem } from '../api/problem.ts';
import { useChange } from '../api/queries.ts';
import { ConfirmationDialog } from '../confirmations/confirmation-dialog.tsx';
import { type AppliedChangeBody, CHANGES, changePath, type PendingChange } from './change-request.ts';
import { ChangePreviewRenewed, renewedChangeIn } from './renewed-change.tsx';
import { WeakerList } from './weaker-list.tsx';

interface ConfirmChangeProps {
  title: string;
  pending: PendingChange;
  /** Paths that are refetched after the change was applied. */
  stalePaths: readonly string[];
  onClose(): void;
  /** Also called if the dialog was closed before the answer. */
  onApplied(answer: AppliedChangeBody): void;
}

/** Dialog with what a change makes weaker, to confirm or cancel it. */
export function ConfirmChange({ title, pending, stalePaths, onClose: close, onApplied }: ConfirmChangeProps) {
  const confirm = useChange<AppliedChangeBody>([CHANGES, ...stalePaths]);
  const cancel = useChange([CHANGES]);
  const renewed = renewedChangeIn(confirm.error);
  // The last one that the service has answered with.
  const [shown, setShown] = useState(pending);
  return (
    <ConfirmationDialog
      title={title}
      noun="change"
      reason={shown.reason}
      expiresAt={shown.expires_at}
      expiredText="The confirmation expired and nothing was changed. Close this dialog and request the change again."
      confirmLabel="Confirm change"
      confirm={confirm}
      cancel={cancel}
      error={(renewed === null ? confirm.error : null) ?? cancel.error}
      onClose={close}
      onLater={close}
      onCancel={() =>
        cancel.mutate({ method: 'POST', path: changePath(shown.change_id, '/refuse'), body: {} }, { onSuccess: close })
      }
      onConfirm={() =>
        void confirm
          .mutateAsync({
            method: 'POST',
            path: changePath(shown.change_id, '/confirm'),
            body: { dry_run_token: shown.dry_run_token },
          })
          .then(onApplied, (problem: Problem) => setShown(renewedChangeIn(problem) ?? shown))
      }
    >
      <WeakerList of={shown.preview.weaker} />
      {renewed !== null && <ChangePreviewRenewed />}
    </ConfirmationDialog>
  );
}
