import { type FormEvent, useId } from 'react';
import type { Problem } from '../api/problem.ts';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError } from '../ui/feedback.tsx';
import { textIn } from '../ui/form-dialog.tsx';
import { type DeviceRecord, deviceNameOf } from './device-name.tsx';

interface KeyChangeTexts {
  /** Last part of the path of the request. */
  path: string;
  titleOf(device: string): string;
  consequences: string;
  label: string;
  tone: 'primary' | 'danger';
  reason: 'none' | 'optional' | 'required';
}

/** Critical changes of a device's keys. */
export const keyChanges = {
  rotate: {
    path: 'rotate-secret',
    titleOf: (device) => `Rotate the secret of ${device}?`,
    consequences: 'The device gets a new secret, which is shown once. The current one stays valid for 24 hours.',
    ...{ label: 'Rotate secret', tone: 'primary', reason: 'none' },
  },
  revoke: {
    path: 'revoke',
    titleOf: (device) => `Revoke ${device}?`,
    consequences: 'The device is disconnected, its keys become invalid and its open commands are cancelled.',
    ...{ label: 'Revoke device', tone: 'danger', reason: 'optional' },
  },
  reinstate: {
    path: 'reinstate',
    titleOf: (device) => `Reinstate ${device}?`,
    consequences: 'The device can connect again, with a new secret, which is shown once.',
    ...{ label: 'Reinstate device', tone: 'primary', reason: 'required' },
  },
} satisfies Record<string, KeyChangeTexts>;

export type KeyChange = keyof typeof keyChanges;

interface KeyChangeDialogProps {
  of: KeyChange;
  device: DeviceRecord;
  /** The state of the request that `onRequest` sends. */
  request: { error: Problem | null; isPending: boolean };
  /** `reason` is empty without one. */
  onRequest(reason: string): void;
  onClose(): void;
}

/** Dialog with the consequences of a change of a device's keys. */
export function KeyChangeDialog({ of, device, request, onRequest, onClose: close }: KeyChangeDialogProps) {
  const { titleOf, consequences, label, tone, reason }: KeyChangeTexts = keyChanges[of];
  const reasonId = useId();
  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    onRequest(textIn(new FormData(event.currentTarget), 'reason'));
  };
  return (
    <Dialog title={titleOf(deviceNameOf(device))} onClose={close}>
      <form onSubmit={send}>
        <p>{consequences}</p>
        {reason !== 'none' && (
          <>
            <label htmlFor={reasonId}>Reason{reason === 'optional' && ' (optional)'}</label>
            <input id={reasonId} name="reason" required={reason === 'required'} maxLength={500} autoComplete="off" />
          </>
        )}
        <ChangeError error={request.error} />
        <div className="actions">
          <button type="button" className="button" onClick={close}>
            Cancel
          </button>
          <button type="submit" className={`button ${tone}`} disabled={request.isPending}>
            {label}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
