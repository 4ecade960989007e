import { type ReactNode, useEffect, useId, useRef } from 'react';
import './dialog.css';

export interface DialogProps {
  title: string;
  children: ReactNode;
  /** Also where somebody presses Escape. */
  onClose(): void;
}

/** In front of the page until it is closed; the focus goes in, and back to where it was. */
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
      // What it was opened with is gone, as an entry that is answered.
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
