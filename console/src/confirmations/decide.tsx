import { type FormEvent, useId, useRef } from 'react';
import { Link } from 'wouter';
import type { getPolicy } from '../../../src/operations/policy.ts';
import { type Change, useChange, useGet } from '../api/queries.ts';
import type { Answer } from '../api/shapes.ts';
import { commandHref } from '../commands/status.tsx';
import { useDeviceName } from '../devices/name.tsx';
import { useSession } from '../session.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Failed, Note } from '../ui/states.tsx';
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

/** The buttons of what waits; what they open stands in front of the page, also when it waits no more. */
export function Buttons({ of: one, ask }: { of: Waiting; ask(way: Way): void }) {
  const forAnother = useIsForAnother(one);
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

export type Way = 'approve' | 'refuse';
/** It may end while somebody thinks about it. */
export type Standing = 'waiting' | 'expired' | 'answered';

interface Deciding {
  of: Waiting;
  standing: Standing;
  close(): void;
}

export function Approve({ of: one, standing, close, done }: Deciding & { done(): void }) {
  const approve = useChange(STALE);
  const device = useDeviceName(one.device_id);
  const over = standing !== 'waiting' && approve.isIdle;
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
    <Dialog title={`${headline(one.action)}: ${device}?`} close={close}>
      <Effect of={one} />
      {over ? (
        <Over of={one} standing={standing} />
      ) : (
        <p className="quiet small">
          The device gets the command at once. This offer expires <Countdown until={one.expires_at} />.
        </p>
      )}
      <Failed error={approve.error} />
      <div className="actions">
        <button type="button" className="button" onClick={close}>
          {over ? 'Close' : 'Not now'}
        </button>
        <button type="button" className="button primary" disabled={over || approve.isPending} onClick={send}>
          Approve: {headline(one.action).toLowerCase()}
        </button>
      </div>
    </Dialog>
  );
}

export function Refuse({ of: one, standing, close }: Deciding) {
  const refuse = useChange(STALE);
  const device = useDeviceName(one.device_id);
  const reason = useRef<HTMLInputElement>(null);
  const reasonId = useId();
  const over = standing !== 'waiting' && refuse.isIdle;
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
    <Dialog title={`Do not ${headline(one.action).toLowerCase()}: ${device}`} close={close}>
      {over ? <Over of={one} standing={standing} /> : <p>The command is cancelled, and the device never gets it.</p>}
      <form onSubmit={send}>
        <label htmlFor={reasonId}>Why (kept in its journal; may be left empty)</label>
        <input id={reasonId} ref={reason} maxLength={500} autoComplete="off" disabled={over} />
        <Failed error={refuse.error} />
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

const Over = ({ of: { command_id }, standing }: { of: Waiting; standing: Standing }) => (
  <Note tone="warn">
    {standing === 'expired'
      ? 'It expired before it was answered, and the device never gets it. Whoever still wants it asks again: '
      : 'It waits no more: somebody answered it, or it was cancelled. See '}
    <Link href={commandHref(command_id)}>the command</Link>.
  </Note>
);
