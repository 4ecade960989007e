import { useState } from 'react';

interface CopyActionsProps {
  /** Copied to the clipboard, where the browser permits it. */
  text: string;
  label: string;
  onDone(): void;
}

/** The last part of a dialog that shows a text to copy. */
export function CopyActions({ text, label, onDone: done }: CopyActionsProps) {
  const [isCopied, setCopied] = useState(false);
  return (
    <>
      <p role="status" className="quiet small">
        {isCopied ? 'Copied.' : ''}
      </p>
      <div className="actions">
        {'clipboard' in navigator && (
          <button
            type="button"
            className="button"
            onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
          >
            {label}
          </button>
        )}
        <button type="button" className="button primary" onClick={done}>
          Done
        </button>
      </div>
    </>
  );
}
