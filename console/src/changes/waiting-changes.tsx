import { useId, useState } from 'react';
import { Link } from 'wouter';
import { useGet } from '../api/queries.ts';
import { DeviceName } from '../devices/device-name.tsx';
import { useUserNames } from '../people/user-names.ts';
import { useNow } from '../ui/clock.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { LoadError } from '../ui/feedback.tsx';
import { Icon } from '../ui/icons.tsx';
import { Countdown, Time } from '../ui/time.tsx';
import {
  CHANGES,
  type ChangeRequestEntry,
  type ChangeRequestList,
  changePath,
  deviceOfChange,
  useNeedsAnother,
} from './change-request.ts';
import { WeakerList } from './weaker-list.tsx';

const REFRESH_MS = 10_000;

/** Titles of change requests by their operation. */
const titles: Readonly<Record<string, string>> = {
  registerManifest: 'First manifest',
  updateManifest: 'New manifest',
  updatePolicy: 'Looser safety policy',
  rotateSecret: 'New device key',
  reinstateDevice: 'Reinstatement',
  revokeDevice: 'Revocation',
  releaseFirmware: 'Firmware release',
};

/** The change requests that wait for a confirmation, for admins; nothing without any. */
export function WaitingChanges() {
  const { data, error, refetch } = useGet<ChangeRequestList>(`${CHANGES}?waiting=true&limit=200`, {
    refetchIntervalMs: REFRESH_MS,
  });
  const now = useNow();
  if (data === undefined) return error === null ? null : <LoadError problem={error} retry={refetch} />;
  const waiting = data.changes.filter(({ expires_at }) => Date.parse(expires_at) > now);
  if (waiting.length === 0) return null;
  return (
    <section aria-labelledby="changes">
      <h2 id="changes">Changes</h2>
      <ul className="inbox">
        {waiting.map((one) => (
          <Entry key={one.id} of={one} />
        ))}
      </ul>
    </section>
  );
}

function Entry({ of: one }: { of: ChangeRequestEntry }) {
  const nameOf = useUserNames();
  const titleId = useId();
  const device = deviceOfChange(one.subject);
  return (
    <li>
      <article className="card asked" aria-labelledby={titleId}>
        <header>
          <h3 id={titleId}>
            {titles[one.operation] ?? one.operation}
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
          Requested by {nameOf(one.requested_by)}, <Time at={one.requested_at} />.
          {device !== null && (
            <>
              {' '}
              <Link href={`/devices/${device}`}>Show the device</Link>
            </>
          )}
        </p>
        <WeakerList of={one.weaker} />
        <Decisions of={one} />
      </article>
    </li>
  );
}

function Decisions({ of: one }: { of: ChangeRequestEntry }) {
  const needsAnother = useNeedsAnother(one.requested_by);
  const [reason, setReason] = useState('');
  const reasonId = useId();
  const stalePaths = [CHANGES, '/v1/devices', '/v1/tenant/policy', '/v1/firmware'];
  const body = reason.trim() === '' ? {} : { reason: reason.trim() };
  return (
    <div className="actions">
      <ConfirmButton
        label="Refuse"
        title="Refuse this change?"
        confirmLabel="Refuse change"
        change={{ method: 'POST', path: changePath(one.id, '/refuse'), body }}
        stalePaths={stalePaths}
      >
        <p>The change is not applied.</p>
        <label htmlFor={reasonId}>Reason (optional, stored with the change)</label>
        <input
          id={reasonId}
          maxLength={500}
          autoComplete="off"
          value={reason}
          onChange={({ target }) => setReason(target.value)}
        />
      </ConfirmButton>
      {needsAnother ? (
        <p className="quiet small for-another">
          You requested this change. The policy requires approval by another person.
        </p>
      ) : (
        <ConfirmButton
          label="Approve"
          title="Apply this change?"
          confirmLabel="Apply change"
          tone="primary"
          change={{ method: 'POST', path: changePath(one.id, '/approve'), body: {} }}
          stalePaths={stalePaths}
        >
          <p>It is applied immediately:</p>
          <WeakerList of={one.weaker} />
        </ConfirmButton>
      )}
    </div>
  );
}
