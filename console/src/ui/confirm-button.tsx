import { type ReactNode, useState } from 'react';
import { type Change, useChange } from '../api/queries.ts';
import { Dialog } from './dialog.tsx';
import { ChangeError } from './feedback.tsx';

interface ConfirmButtonProps {
  /** Label of the button that opens the dialog; ` …` is appended. */
  label: string;
  /** Object of the action, for screen readers: `Revoke … Night shift`. */
  about?: string;
  title: string;
  /** Explanation of the consequences. */
  children: ReactNode;
  /** Label of the button that confirms. */
  confirmLabel: string;
  tone?: 'primary' | 'danger';
  change: Change;
  stalePaths: readonly string[];
  onSuccess?(answer: unknown): void;
}

/** A button with a confirmation dialog. */
export function ConfirmButton({
  label,
  about,
  title,
  children,
  confirmLabel,
  tone = 'danger',
  change,
  stalePaths,
  onSuccess,
}: ConfirmButtonProps) {
  const [open, setOpen] = useState(false);
  const mutation = useChange(stalePaths);
  const close = (): void => {
    setOpen(false);
    mutation.reset();
  };
  return (
    <>
      <button
        type="button"
        className={tone === 'danger' ? 'button danger' : 'button'}
        {...(about !== undefined && { 'aria-label': `${label} … ${about}` })}
        onClick={() => setOpen(true)}
      >
        {label} …
      </button>
      {open && (
        <Dialog title={title} onClose={close}>
          {children}
          <ChangeError error={mutation.error} />
          <div className="actions">
            <button type="button" className="button" onClick={close}>
              Cancel
            </button>
            <button
              type="button"
              className={`button ${tone}`}
              disabled={mutation.isPending}
              onClick={() =>
                mutation.mutate(change, {
                  onSuccess(answer) {
                    close();
                    onSuccess?.(answer);
                  },
                })
              }
            >
              {confirmLabel}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}
