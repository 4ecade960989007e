import { type FormEvent, useId, useRef } from 'react';
import { Link } from 'wouter';
import type { getPolicy } from '../../../src/operations/commands/safety-policy.ts';
import type { Answer } from '../api/answer-types.ts';
import { type Change, useChange, useGet } from '../api/queries.ts';
import { commandHref } from '../commands/status.tsx';
import { useDeviceName } from '../devices/device-name.tsx';
import { useSession } from '../session.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ChangeError, Note } from '../ui/feedback.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Countdown } from '../ui/time.tsx';
import { CommandEffect } from './command-effect.tsx';
import type { PendingConfirmation } from './pending-confirmation.ts';

const STALE = ['/v1/confirmations', '/v1/commands', '/v1/plans'];

/** Only admins may read the policy; whoever may not learns of it from the answer. */
function useNeedsAnotherPrincipal({ requested_by }: PendingConfirmation): boolean {
  const { me, may } = useSession();
  const { data } = useGet<Answer<typeof getPolicy>>('/v1/tenant/policy', { enabled: may('admin') });
  return data?.policy.confirm_by === 'another_principal' && requested_by === me.user.id;
}

/** The buttons of what waits; what they open stands in front of the page, also when it waits no more. */
export function DecisionButtons({ of: one, ask }: { of: PendingConfirmation; ask(way: Decision): void }) {
  const forAnother = useNeedsAnotherPrincipal(one);
  const noteId = useId();
  return (
    <div className="actions">
      <button type="button" className="button danger" onClick={() => ask('refuse')}>
        Refuse …
      </button>
      {forAnother && (
        <p id={noteId} className="quiet small for-another">
          You asked for it: the policy wants somebody else to approve it.
        </p>
      )}
      <button
        type="button"
        className="button primary"
        disabled={forAnother}
        {...(forAnother && { 'aria-describedby': noteId })}
        onClick={() => ask('approve')}
      >
        Approve …
      </button>
    </div>
  );
}

export type Decision = 'approve' | 'refuse';
/** It may end while somebody thinks about it. */
export type ConfirmationState = 'waiting' | 'expired' | 'answered';

interface DecisionDialogProps {
  of: PendingConfirmation;
  state: ConfirmationState;
  onClose(): void;
}

export function Approve({ of: one, state, onClose: close, done }: DecisionDialogProps & { done(): void }) {
  const approve = useChange(STALE);
  const device = useDeviceName(one.device_id);
  const over = state !== 'waiting' && approve.isIdle;
  const send = () =>
    approve.mutate(
      { method: 'POST', path: `/v1/confirmations/${one.command_id}/approve`, body: {} },
      {
        onSuccess() {
          close();
          done();
        },
      },
    );
  return (
    <Dialog title={`${sentenceCase(one.action)}: ${device}?`} onClose={close}>
      <CommandEffect of={one} />
      {over ? (
        <NoLongerPending of={one} standing={state} />
      ) : (
        <p className="quiet small">
          The device gets the command at once. This offer expires <Countdown until={one.expires_at} />.
        </p>
      )}
      <ChangeError error={approve.error} />
      <div className="actions">
        <button type="button" className="button" onClick={close}>
          {over ? 'Close' : 'Not now'}
        </button>
        <button type="button" className="button primary" disabled={over || approve.isPending} onClick={send}>
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
  const over = state !== 'waiting' && refuse.isIdle;
  const send = (event: FormEvent) => {
    event.preventDefault();
    const said = reason.current?.value.trim() ?? '';
    const change: Change = {
      method: 'POST',
      path: `/v1/confirmations/${one.command_id}/refuse`,
      body: said === '' ? {} : { reason: said },
    };
    refuse.mutate(change, { onSuccess: close });
  };
  return (
    <Dialog title={`Do not ${sentenceCase(one.action).toLowerCase()}: ${device}`} onClose={close}>
      {over ? (
        <NoLongerPending of={one} standing={state} />
      ) : (
        <p>The command is cancelled, and the device never gets it.</p>
      )}
      <form onSubmit={send}>
        <label htmlFor={reasonId}>Why (kept in its journal; may be left empty)</label>
        <input id={reasonId} ref={reason} maxLength={500} autoComplete="off" disabled={over} />
        <ChangeError error={refuse.error} />
        <div className="actions">
          <button type="button" className="button" onClick={close}>
            {over ? 'Close' : 'Back'}
          </button>
          <button type="submit" className="button danger" disabled={over || refuse.isPending}>
            Refuse it
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const NoLongerPending = ({
  of: { command_id },
  standing,
}: {
  of: PendingConfirmation;
  standing: ConfirmationState;
}) => (
  <Note tone="warn">
    {standing === 'expired'
      ? 'It expired before it was answered, and the device never gets it. Whoever still wants it asks again: '
      : 'It waits no more: somebody answered it, or it was cancelled. See '}
    <Link href={commandHref(command_id)}>the command</Link>.
  </Note>
);
