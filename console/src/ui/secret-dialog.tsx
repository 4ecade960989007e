import { useState } from 'react';
import { Dialog } from './dialog.tsx';

interface SecretDialogProps {
  title: string;
  /** What the secret is, for example `key`. */
  noun: string;
  secret: string;
  onClose(): void;
}

/** Shows a secret that the service returns once, until the dialog is closed. The caller keeps it in its state only. */
export function SecretDialog({ title, noun, secret, onClose: close }: SecretDialogProps) {
  const [copied, setCopied] = useState(false);
  return (
    <Dialog title={title} onClose={close}>
      <p>Copy the {noun} now. It is shown only once.</p>
      <code className="secret">{secret}</code>
      <p role="status" className="quiet small">
        {copied ? 'Copied.' : ''}
      </p>
      <div className="actions">
        {'clipboard' in navigator && (
          <button
            type="button"
            className="button"
            onClick={() => void navigator.clipboard.writeText(secret).then(() => setCopied(true))}
          >
            Copy
          </button>
        )}
        <button type="button" className="button primary" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
