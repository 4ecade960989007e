import type { FormEvent, ReactNode } from 'react';
import { type Change, useChange } from '../api/queries.ts';
import { Dialog } from './dialog.tsx';
import { ChangeError } from './feedback.tsx';

interface FormDialogProps<Answer> {
  title: string;
  /** The fields, with names. */
  children: ReactNode;
  submitLabel: string;
  tone?: 'primary' | 'danger';
  changeOf(given: FormData): Change;
  stalePaths: readonly string[];
  /** The form cannot be sent yet. */
  isIncomplete?: boolean;
  onClose(): void;
  /** Called after the dialog was closed. */
  onSuccess?(answer: Answer): void;
}

/** The trimmed text of a field; empty if the form has no such field. */
export const textIn = (given: FormData, field: string): string => `${given.get(field) ?? ''}`.trim();

/** Dialog with a form that sends one change. */
export function FormDialog<Answer = unknown>({
  title,
  children,
  submitLabel,
  tone = 'primary',
  changeOf,
  stalePaths,
  isIncomplete = false,
  onClose: close,
  onSuccess,
}: FormDialogProps<Answer>) {
  const change = useChange<Answer>(stalePaths);
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    change.mutate(changeOf(new FormData(event.currentTarget)), {
      onSuccess(answer) {
        close();
        onSuccess?.(answer);
      },
    });
  };
  return (
    <Dialog title={title} onClose={close}>
      <form onSubmit={send}>
        {children}
        <ChangeError error={change.error} />
        <div className="actions">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className={`button ${tone}`} disabled={isIncomplete || change.isPending}>
            {submitLabel}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
