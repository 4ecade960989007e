import { type FormEvent, useId, useRef, useState } from 'react';
import type { getPolicy } from '../../../src/operations/policy.ts';
import { type Change, useChange, useGet } from '../api/queries.ts';
import type { Answer } from '../api/shapes.ts';
import { useDeviceName } from '../devices/name.tsx';
import { useSession } from '../session.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Failed } from '../ui/states.tsx';
import { Countdown } from '../ui/time.tsx';
import { headline } from '../ui/words.ts';
import { Effect } from './effect.tsx';
import type { Waiting } from './waiting.ts';

const STALE = ['/v1/confirmations', '/v1/commands', '/v1/plans'];

/** Only admins may read the policy; whoever may not learns of it from the answer. */
function useIsForAnother({ requested_by }: Waiting): boolean {
  const { me, may } = useSession();
  const { data } = useGet<Answer<typeof getPolicy>>('/v1/tenant/policy', { when: may('admin') });
  return data?.policy.confirm_by === 'another_principal' && requested_by === me.user.id;
}

export function Approve({ of: one, done }: { of: Waiting; done(): void }) {
  const [open, setOpen] = useState(false);
  const approve = useChange(STALE);
  const device = useDeviceName(one.device_id);
  const forAnother = useIsForAnother(one);
  const noteId = useId();
  const close = () => {
    setOpen(false);
    approve.reset();
  };
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
    <>
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
        onClick={() => setOpen(true)}
      >
        Approve …
      </button>
      {open && (
        <Dialog title={`${headline(one.action)}: ${device}?`} close={close}>
          <Effect of={one} />
          <p className="quiet small">
            The device gets the command at once. This offer expires <Countdown until={one.expires_at} />.
          </p>
          <Failed error={approve.error} />
          <div className="actions">
            <button type="button" className="button" onClick={close}>
              Not now
            </button>
            <button type="button" className="button primary" disabled={approve.isPending} onClick={send}>
              Approve: {headline(one.action).toLowerCase()}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

export function Refuse({ of: one }: { of: Waiting }) {
  const [open, setOpen] = useState(false);
  const refuse = useChange(STALE);
  const device = useDeviceName(one.device_id);
  const reason = useRef<HTMLInputElement>(null);
  const reasonId = useId();
  const close = () => {
    setOpen(false);
    refuse.reset();
  };
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
    <>
      <button type="button" className="button danger" onClick={() => setOpen(true)}>
        Refuse …
      </button>
      {open && (
        <Dialog title={`Do not ${headline(one.action).toLowerCase()}: ${device}`} close={close}>
          <p>The command is cancelled, and the device never gets it.</p>
          <form onSubmit={send}>
            <label htmlFor={reasonId}>Why (kept in its journal; may be left empty)</label>
            <input id={reasonId} ref={reason} maxLength={500} autoComplete="off" />
            <Failed error={refuse.error} />
            <div className="actions">
              <button type="button" className="button" onClick={close}>
                Back
              </button>
              <button type="submit" className="button danger" disabled={refuse.isPending}>
                Refuse it
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}
