import { type ReactNode, useState } from 'react';
import { type Change, useChange } from '../api/queries.ts';
import { Dialog } from './dialog.tsx';
import { Failed } from './states.tsx';

interface AskFirstProps {
  /** On the button that opens it; ` …` is added. */
  label: string;
  /** For who hears only the button: `Revoke the key …`. */
  about?: string;
  title: string;
  /** What it will do. */
  children: ReactNode;
  /** On the button that does it. */
  verb: string;
  tone?: 'primary' | 'danger';
  change: Change;
  stale: readonly string[];
  done?(answer: unknown): void;
}

/** A button for what is asked back first. */
export function AskFirst({ label, about, title, children, verb, tone = 'danger', change, stale, done }: AskFirstProps) {
  const [open, setOpen] = useState(false);
  const asked = useChange(stale);
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
        <Dialog title={title} close={close}>
          {children}
          <Failed error={asked.error} />
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
                    done?.(answer);
                  },
                })
              }
            >
              {verb}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}
