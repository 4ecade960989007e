import { type ReactNode, useEffect, useId, useRef } from 'react';
import './dialog.css';

export interface DialogProps {
  title: string;
  children: ReactNode;
  /** Also called on Escape. */
  onClose(): void;
}

/** Modal dialog. The focus moves into it, and back to the previous element on close. */
export function Dialog({ title, children, onClose }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      // The element that opened the dialog was removed, such as an answered confirmation.
      else document.getElementById('content')?.focus({ preventScroll: true });
    };
  }, []);
  return (
    <dialog
      ref={ref}
      className="dialog"
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <h2 id={titleId}>{title}</h2>
      {children}
    </dialog>
  );
}
