import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { Problem } from '../api/problem.ts';
import { useNow } from '../ui/clock.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, Note } from '../ui/feedback.tsx';
import { Countdown } from '../ui/time.tsx';

/** The state of a request: of `useChange`. */
interface RequestState {
  isIdle: boolean;
  isPending: boolean;
}

interface ConfirmationDialogProps {
  title: string;
  /** What waits, in the texts. */
  noun: 'command' | 'change';
  /** Why a confirmation is required. */
  reason: string;
  /** RFC 3339. */
  expiresAt: string;
  /** Shown instead of the deadline after it has passed. */
  expiredText: string;
  confirmLabel: string;
  confirm: RequestState;
  cancel: RequestState;
  error: Problem | null;
  /** Only a preview was requested: it is not in the inbox. */
  isPreview?: boolean;
  /** The effect. */
  children: ReactNode;
  onConfirm(): void;
  onCancel(): void;
  /** The button “Decide later”. */
  onLater(): void;
  /** After expiry, and on Escape. */
  onClose(): void;
}

/**
 * Dialog with the effect of a command or a change that the user has requested, to confirm or cancel it. Whether the user may
 * confirm it is decided by the service: the policy at that time, and for agents a second one, apply.
 */
export function ConfirmationDialog({
  noun,
  expiresAt,
  confirm,
  cancel,
  onClose: close,
  ...props
}: ConfirmationDialogProps) {
  const isExpired = Date.parse(expiresAt) <= useNow() && confirm.isIdle && cancel.isIdle;
  return (
    <Dialog title={props.title} onClose={close}>
      <p>{props.isPreview === true ? `The ${noun} would have this effect:` : props.reason}</p>
      {props.children}
      {isExpired ? (
        <Note tone="warn">{props.expiredText}</Note>
      ) : (
        <p className="quiet small">
          {props.isPreview ? (
            'Nothing is sent unless you confirm it. The preview expires '
          ) : (
            <>
              Until it is confirmed the {noun} is listed under <Link href="/confirmations">Confirmations</Link>. It
              expires{' '}
            </>
          )}
          <Countdown until={expiresAt} />.
        </p>
      )}
      <ChangeError error={props.error} />
      <div className="actions">
        <button
          type="button"
          className="button danger"
          disabled={isExpired || cancel.isPending}
          onClick={props.onCancel}
        >
          Cancel {noun}
        </button>
        <button type="button" className="button" onClick={isExpired || props.isPreview ? close : props.onLater}>
          {isExpired || props.isPreview ? 'Close' : 'Decide later'}
        </button>
        <button
          type="button"
          className="button primary"
          disabled={isExpired || confirm.isPending}
          onClick={props.onConfirm}
        >
          {props.confirmLabel}
        </button>
      </div>
    </Dialog>
  );
}
