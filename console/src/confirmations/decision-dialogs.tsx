import { type FormEvent, useId, useRef, useState } from 'react';
import { Link } from 'wouter';
import { type Change, useChange } from '../api/queries.ts';
import { commandHref } from '../commands/status.tsx';
import { useDeviceName } from '../devices/device-name.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, Note } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Countdown } from '../ui/time.tsx';
import { CommandEffect } from './command-effect.tsx';
import type { PendingConfirmation } from './pending-confirmation.ts';
import { changedPreviewIn, PreviewChangedNote, type ShownPreview } from './preview-changed.tsx';

const STALE = ['/v1/confirmations', '/v1/commands', '/v1/plans'];

/** Buttons of a pending confirmation. The dialogs that they open stay open when it is no longer pending. */
export const DecisionButtons = ({ onDecide }: { onDecide(decision: ConfirmationDecision): void }) => (
  <div className="actions">
    <button type="button" className="button danger" onClick={() => onDecide('refuse')}>
      Refuse …
    </button>
    <button type="button" className="button primary" onClick={() => onDecide('approve')}>
      Approve …
    </button>
  </div>
);

export type ConfirmationDecision = 'approve' | 'refuse';
/** The confirmation may end while a dialog is open. */
export type ConfirmationState = 'waiting' | 'expired' | 'answered';

interface DecisionDialogProps {
  of: PendingConfirmation;
  state: ConfirmationState;
  onClose(): void;
}

export function Approve({ of: one, state, onClose: close, onApproved }: DecisionDialogProps & { onApproved(): void }) {
  const approve = useChange(STALE);
  const currentName = useDeviceName(one.device_id);
  const isOver = state !== 'waiting' && approve.isIdle;
  // The list may show a newer preview than this dialog, which approves what it shows.
  const [shown, setShown] = useState<ShownPreview>(one);
  const device = shown.preview.device?.name ?? currentName;
  const changed = changedPreviewIn(approve.error);
  const send = () =>
    approve.mutate(
      {
        method: 'POST',
        path: `/v1/confirmations/${one.command_id}/approve`,
        body: { preview_hash: shown.preview_hash },
      },
      {
        onSuccess() {
          close();
          onApproved();
        },
        onError: (problem) => setShown(changedPreviewIn(problem) ?? shown),
      },
    );
  return (
    <Dialog title={`${sentenceCase(one.action)}: ${device}?`} onClose={close}>
      <CommandEffect of={{ ...one, preview: shown.preview }} />
      {changed !== null && <PreviewChangedNote />}
      {isOver ? (
        <NoLongerPending of={one} state={state} />
      ) : (
        <p className="quiet small">
          The command is sent to the device immediately. The confirmation expires <Countdown until={one.expires_at} />.
        </p>
      )}
      <ChangeError error={changed === null ? approve.error : null} />
      <div className="actions">
        <button type="button" className="button" onClick={close}>
          {isOver ? 'Close' : 'Decide later'}
        </button>
        <button type="button" className="button primary" disabled={isOver || approve.isPending} onClick={send}>
          Approve: {sentenceCase(one.action).toLowerCase()}
        </button>
      </div>
    </Dialog>
  );
}

export function Refuse({ of: one, state, onClose: close }: DecisionDialogProps) {
  const refuse = useChange(STALE);
  const device = useDeviceName(one.device_id);
  const reason = useRef<HTMLInputElement>(null);
  const reasonId = useId();
  const isOver = state !== 'waiting' && refuse.isIdle;
  const send = (event: FormEvent) => {
    event.preventDefault();
    const text = reason.current?.value.trim() ?? '';
    const change: Change = {
      method: 'POST',
      path: `/v1/confirmations/${one.command_id}/refuse`,
      body: text === '' ? {} : { reason: text },
    };
    refuse.mutate(change, { onSuccess: close });
  };
  return (
    <Dialog title={`Refuse ${sentenceCase(one.action).toLowerCase()}: ${device}?`} onClose={close}>
      {isOver ? (
        <NoLongerPending of={one} state={state} />
      ) : (
        <p>The command is cancelled and is not sent to the device.</p>
      )}
      <form onSubmit={send}>
        <label htmlFor={reasonId}>Reason (optional, stored in the journal)</label>
        <input id={reasonId} ref={reason} maxLength={500} autoComplete="off" disabled={isOver} />
        <ChangeError error={refuse.error} />
        <div className="actions">
          <button type="button" className="button" onClick={close}>
            {isOver ? 'Close' : 'Cancel'}
          </button>
          <button type="submit" className="button danger" disabled={isOver || refuse.isPending}>
            Refuse command
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const NoLongerPending = ({ of: { command_id }, state }: { of: PendingConfirmation; state: ConfirmationState }) => (
  <Note tone="warn">
    {state === 'expired'
      ? 'The confirmation expired and the command was not sent. If it is still needed, send it again. '
      : 'The confirmation is no longer pending: it was answered, or the command was cancelled. '}
    <Link href={commandHref(command_id)}>Show command</Link>
  </Note>
);
