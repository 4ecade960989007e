import { useQueryClient } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { Link } from 'wouter';
import { invalidatePaths, useChange, useGet } from '../api/queries.ts';
import { DeviceName } from '../devices/device-name.tsx';
import { Requester } from '../people/requester.tsx';
import { useNow } from '../ui/clock.ts';
import { LoadError } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import { Countdown, Time } from '../ui/time.tsx';
import {
  type AppliedChangeBody,
  CHANGES,
  type ChangeRequestEntry,
  type ChangeRequestList,
  changePath,
  changeTitle,
  deviceOfChange,
} from './change-request.ts';
import { ApproveChange, RefuseChange, type ShownChange } from './decide-change.tsx';
import { DeviceSecret, type NewSecret, newSecretIn } from './device-secret.tsx';
import { WeakerList } from './weaker-list.tsx';

const REFRESH_MS = 10_000;
const STALE = [CHANGES, '/v1/devices', '/v1/tenant/policy', '/v1/firmware'];

type Decision = 'approve' | 'refuse';

/** The change requests that wait for a confirmation, for admins; nothing without any. */
export function WaitingChanges() {
  const { data, error, refetch } = useGet<ChangeRequestList>(`${CHANGES}?waiting=true&limit=200`, {
    refetchIntervalMs: REFRESH_MS,
  });
  const queries = useQueryClient();
  // Here and not in the dialog or the entry, which may be gone before the answer arrives.
  const approve = useChange<AppliedChangeBody>();
  const [open, setOpen] = useState<{ of: ChangeRequestEntry; decision: Decision } | null>(null);
  const [secret, setSecret] = useState<NewSecret | null>(null);
  const now = useNow();
  const waiting = data?.changes.filter(({ expires_at }) => Date.parse(expires_at) > now) ?? [];
  const close = () => setOpen(null);
  const decide = (of: ChangeRequestEntry, decision: Decision): void => {
    if (!approve.isPending) approve.reset();
    setOpen({ of, decision });
  };
  const approveShown = (
    of: ChangeRequestEntry,
    { id }: ShownChange,
    onError: (problem: typeof approve.error) => void,
  ) =>
    approve.mutate(
      { method: 'POST', path: changePath(id, '/approve'), body: {} },
      {
        onError,
        onSuccess(answer) {
          setSecret(newSecretIn(answer.result));
          setOpen((shown) => (shown?.of.id === of.id ? null : shown));
          void invalidatePaths(queries, STALE);
        },
      },
    );
  return (
    <>
      {data === undefined && error !== null && <LoadError problem={error} retry={refetch} />}
      {waiting.length > 0 && (
        <section aria-labelledby="changes">
          <h2 id="changes">Changes</h2>
          <ul className="inbox">
            {waiting.map((one) => (
              <Entry key={one.id} of={one} onDecide={(decision) => decide(one, decision)} />
            ))}
          </ul>
        </section>
      )}
      {open?.decision === 'refuse' && <RefuseChange of={open.of} stalePaths={STALE} onClose={close} />}
      {open?.decision === 'approve' && (
        <ApproveChange
          key={open.of.id}
          of={open.of}
          approve={approve}
          onApprove={(shown, onError) => approveShown(open.of, shown, onError)}
          onClose={close}
        />
      )}
      {secret !== null && (
        <DeviceSecret
          of={secret}
          close={() => {
            setSecret(null);
            approve.reset();
          }}
        />
      )}
    </>
  );
}

function Entry({ of: one, onDecide }: { of: ChangeRequestEntry; onDecide(decision: Decision): void }) {
  const titleId = useId();
  const device = deviceOfChange(one.subject);
  return (
    <li>
      <article className="card asked" aria-labelledby={titleId}>
        <header>
          <h3 id={titleId}>
            {changeTitle(one.operation)}
            {device !== null && (
              <>
                {' '}
                · <DeviceName id={device} />
              </>
            )}
          </h3>
          <p className="asked-until">
            <Icon name="clock" /> expires <Countdown until={one.expires_at} />
          </p>
        </header>
        <p className="quiet">
          Requested by <Requester of={one} />, <Time at={one.requested_at} />.
          {device !== null && (
            <>
              {' '}
              <Link href={`/devices/${device}`}>Show the device</Link>
            </>
          )}
        </p>
        <WeakerList of={one.weaker} />
        <div className="actions">
          <button type="button" className="button danger" onClick={() => onDecide('refuse')}>
            Refuse …
          </button>
          <button type="button" className="button primary" onClick={() => onDecide('approve')}>
            Approve …
          </button>
        </div>
      </article>
    </li>
  );
}
