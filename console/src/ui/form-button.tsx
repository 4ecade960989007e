import { type ComponentProps, useState } from 'react';
import { FormDialog } from './form-dialog.tsx';

interface FormButtonProps<Answer> extends Omit<ComponentProps<typeof FormDialog<Answer>>, 'onClose'> {
  /** Label of the button that opens the dialog; ` …` is appended. */
  label: string;
  /** Object of the action, for screen readers: `Rename … Hall`. */
  about?: string;
  isPrimary?: boolean;
}

/** A button with a dialog that has a form. */
export function FormButton<Answer = unknown>({ label, about, isPrimary = false, ...dialog }: FormButtonProps<Answer>) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        className={isPrimary ? 'button primary' : 'button'}
        {...(about !== undefined && { 'aria-label': `${label} … ${about}` })}
        onClick={() => setOpen(true)}
      >
        {label} …
      </button>
      {isOpen && <FormDialog<Answer> {...dialog} onClose={() => setOpen(false)} />}
    </>
  );
}
