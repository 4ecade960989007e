import { type ReactNode, useState } from 'react';
import { type Change, useChange } from '../api/queries.ts';
import { Dialog } from './dialog.tsx';
import { ChangeError } from './feedback.tsx';

interface ConfirmButtonProps {
  /** On the button that opens it; ` …` is added. */
  label: string;
  /** For who hears only the button: `Revoke the key …`. */
  about?: string;
  title: string;
  /** What it will do. */
  children: ReactNode;
  /** On the button that does it. */
  confirmLabel: string;
  tone?: 'primary' | 'danger';
  change: Change;
  stalePaths: readonly string[];
  onSuccess?(answer: unknown): void;
}

/** A button for what is asked back first. */
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
  const asked = useChange(stalePaths);
  const close = (): void => {
    setOpen(false);
    asked.reset();
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
          <ChangeError error={asked.error} />
          <div className="actions">
            <button type="button" className="button" onClick={close}>
              Back
            </button>
            <button
              type="button"
              className={`button ${tone}`}
              disabled={asked.isPending}
              onClick={() =>
                asked.mutate(change, {
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
