import { CopyActions } from './copy-actions.tsx';
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
  return (
    <Dialog title={title} onClose={close}>
      <p>Copy the {noun} now. It is shown only once.</p>
      <code className="secret">{secret}</code>
      <CopyActions text={secret} label="Copy" onDone={close} />
    </Dialog>
  );
}
