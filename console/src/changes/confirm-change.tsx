import { Link } from 'wouter';
import { useChange } from '../api/queries.ts';
import { useSession } from '../session.tsx';
import { useNow } from '../ui/clock.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, Note } from '../ui/feedback.tsx';
import { Countdown } from '../ui/time.tsx';
import { CHANGES, changePath, type PendingChange, useNeedsAnother } from './change-request.ts';
import { WeakerList } from './weaker-list.tsx';

interface ConfirmChangeProps {
  title: string;
  pending: PendingChange;
  /** Paths that are refetched after the change was applied. */
  stalePaths: readonly string[];
  onClose(): void;
  onApplied(): void;
}

/** Dialog with what a change makes weaker, to confirm or cancel it. */
export function ConfirmChange({ title, pending, stalePaths, onClose: close, onApplied }: ConfirmChangeProps) {
  const { me } = useSession();
  const confirm = useChange([CHANGES, ...stalePaths]);
  const cancel = useChange([CHANGES]);
  const needsAnother = useNeedsAnother(me.user.id);
  const isExpired = Date.parse(pending.expires_at) <= useNow() && confirm.isIdle && cancel.isIdle;
  return (
    <Dialog title={title} onClose={close}>
      <p>{pending.reason}</p>
      <WeakerList of={pending.preview.weaker} />
      {isExpired ? (
        <Note tone="warn">The confirmation expired and nothing was changed. Close this dialog and publish again.</Note>
      ) : (
        <p className="quiet small">
          {needsAnother
            ? 'The policy requires confirmation by another person. Until then the change is listed under '
            : 'Until it is confirmed the change is listed under '}
          <Link href="/confirmations">Confirmations</Link>. It expires <Countdown until={pending.expires_at} />.
        </p>
      )}
      <ChangeError error={confirm.error ?? cancel.error} />
      <div className="actions">
        <button
          type="button"
          className="button danger"
          disabled={isExpired || cancel.isPending}
          onClick={() =>
            cancel.mutate(
              { method: 'POST', path: changePath(pending.change_id, '/refuse'), body: {} },
              { onSuccess: close },
            )
          }
        >
          Cancel change
        </button>
        <button type="button" className="button" onClick={close}>
          {isExpired ? 'Close' : 'Decide later'}
        </button>
        <button
          type="button"
          className="button primary"
          disabled={isExpired || needsAnother || confirm.isPending}
          onClick={() =>
            confirm.mutate(
              {
                method: 'POST',
                path: changePath(pending.change_id, '/confirm'),
                body: { dry_run_token: pending.dry_run_token },
              },
              { onSuccess: onApplied },
            )
          }
        >
          Confirm change
        </button>
      </div>
    </Dialog>
  );
}
