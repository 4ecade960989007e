import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { ActorKind } from '../../../src/machines/outputs.ts';
import type { ActorListBody, ConfirmationListBody, OverviewRecord } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { CHANGES, type ChangeRequestList, changeTitle } from '../changes/change-request.ts';
import { commandHref } from '../commands/status.tsx';
import { deviceHref } from '../devices/device-name.tsx';
import { Requester } from '../people/requester.tsx';
import { planHref } from '../plans/plan-display.ts';
import { withTenant } from '../platform/tenant-choice.tsx';
import { useSession } from '../session.tsx';
import { LoadError, Loading } from '../ui/feedback.tsx';
import { Icon, type IconName } from '../ui/icons.tsx';
import { abbreviateId, counted, sentenceCase } from '../ui/text-format.ts';
import { Countdown, Time } from '../ui/time.tsx';
import { useDismissed } from './dismissed.ts';
import { type FailedCommand, useNewestFailures } from './newest-failures.ts';

const REFRESH_MS = 10_000;
/** The others are on the page of confirmations. */
const MAX_WAITING = 3;

/** Open issues, most urgent first. */
export function Attention({ overview, tenant }: { overview: OverviewRecord; tenant: string | null }) {
  const { may } = useSession();
  const canInspect = tenant !== null || may('admin');
  const dismissed = useDismissed();
  const newestFailures = useNewestFailures(
    overview.failing_devices.map(({ id }) => id),
    tenant === null && may('user'),
  );
  const waiting = useGet<ConfirmationListBody>('/v1/confirmations?limit=5', {
    refetchIntervalMs: REFRESH_MS,
    // Operators cannot answer confirmations of another tenant.
    enabled: may('user') && tenant === null,
  });
  const waitingChanges = useGet<ChangeRequestList>(`${CHANGES}?waiting=true&limit=5`, {
    refetchIntervalMs: REFRESH_MS,
    enabled: may('admin') && tenant === null,
  });
  const quarantinedActors = useGet<ActorListBody>(withTenant('/v1/actors?quarantined=true&limit=5', tenant), {
    refetchIntervalMs: REFRESH_MS,
    enabled: canInspect,
  });
  const inspect = (kind: ActorKind, id: string): string | null =>
    canInspect ? withTenant(`/actors/${kind}/${id}`, tenant) : null;
  // The pages of plans and devices show only the user's own tenant.
  const planOf = (id: string): string | null => (tenant === null && may('viewer') ? planHref(id) : inspect('plan', id));
  const deviceOf = (id: string): string | null =>
    tenant === null && may('user') ? deviceHref(id) : inspect('device', id);
  const failed = waiting.error ?? quarantinedActors.error;
  if (failed !== null && waiting.data === undefined && quarantinedActors.data === undefined) {
    return <LoadError problem={failed} retry={() => Promise.all([waiting.refetch(), quarantinedActors.refetch()])} />;
  }
  if (waiting.isLoading || quarantinedActors.isLoading) return <Loading what="Loading" />;
  const confirmations = waiting.data?.confirmations ?? [];
  const changes = waitingChanges.data?.changes ?? [];
  const quarantined = quarantinedActors.data?.actors ?? [];
  const failing = overview.failing_devices.filter(({ id }) => {
    const newest = newestFailures.of(id);
    return newest === undefined ? !newestFailures.isLoading : !dismissed.has(newest.id);
  });
  const rollbacks = overview.failed_rollbacks.filter(({ id }) => !dismissed.has(id));
  if (confirmations.length + changes.length + quarantined.length + failing.length + rollbacks.length === 0) {
    return (
      <p className="all-well">
        <Icon name="good" /> Nothing needs attention.
      </p>
    );
  }
  return (
    <ul className="attention">
      {rollbacks.map(({ id, name, since }) => (
        <Item
          key={id}
          icon="plan"
          tone="bad"
          href={planOf(id)}
          title={`Rollback failed: ${name ?? 'plan'}`}
          onDismiss={() => dismissed.dismiss(id)}
        >
          The plan failed and could not be rolled back completely, <Time at={since} />. Check the devices.
        </Item>
      ))}
      {quarantined.map(({ kind, id, name, since }) => (
        <Item key={id} icon="warning" tone="bad" href={inspect(kind, id)} title={`Quarantined: ${name ?? kind}`}>
          The actor failed repeatedly. Last state change: <Time at={since} />.
        </Item>
      ))}
      {confirmations
        .slice(0, MAX_WAITING)
        .map(({ command_id, device_id, action, preview, expires_at, requested_by, requested_with }) => (
          <Item
            key={command_id}
            icon="confirm"
            tone="warn"
            href="/confirmations"
            title={`Waiting for confirmation: ${sentenceCase(action).toLowerCase()} · ${preview.device?.name ?? `device ${abbreviateId(device_id)}`}`}
          >
            Requested by <Requester of={{ requested_by, requested_with }} />. Expires <Countdown until={expires_at} />.
          </Item>
        ))}
      {changes.slice(0, MAX_WAITING).map(({ id, operation, weaker, expires_at }) => (
        <Item
          key={id}
          icon="policy"
          tone="warn"
          href="/confirmations"
          title={`Waiting for confirmation: ${changeTitle(operation).toLowerCase()}`}
        >
          {weaker[0]} {weaker.length > 1 && `And ${weaker.length - 1} more.`} Expires <Countdown until={expires_at} />.
        </Item>
      ))}
      {Math.max(confirmations.length, changes.length) > MAX_WAITING && (
        <li className="warn">
          <Icon name="confirm" />
          <Link href="/confirmations">Show all that waits for confirmation</Link>
        </li>
      )}
      {failing.map((device) => (
        <FailingDevice
          key={device.id}
          of={device}
          href={deviceOf(device.id)}
          newest={newestFailures.of(device.id)}
          dismiss={dismissed.dismiss}
        />
      ))}
    </ul>
  );
}

interface FailingDeviceProps {
  of: OverviewRecord['failing_devices'][number];
  href: string | null;
  newest: FailedCommand | undefined;
  dismiss(id: string): void;
}

/** The failed commands of a device. They are dismissed by the id of the newest, so that a later one is shown again. */
const FailingDevice = ({ of: { id, name, failures }, href, newest, dismiss }: FailingDeviceProps) => (
  <Item
    icon="device"
    tone="warn"
    href={href}
    title={`Failed commands: ${name ?? `device ${abbreviateId(id)}`}`}
    {...(newest !== undefined && { onDismiss: () => dismiss(newest.id) })}
  >
    {counted(failures, 'command')} failed or timed out in the last hour.
    {newest !== undefined && (
      <>
        {' '}
        The newest is <Link href={commandHref(newest.id)}>{sentenceCase(newest.action).toLowerCase()}</Link>,{' '}
        <Time at={newest.timestamp} />.
      </>
    )}
  </Item>
);

interface ItemProps {
  icon: IconName;
  tone: 'warn' | 'bad';
  /** Null if the user cannot open the page. */
  href: string | null;
  title: string;
  /** Hides the item. */
  onDismiss?(): void;
  children: ReactNode;
}

const Item = ({ icon, tone, href, title, onDismiss, children }: ItemProps) => (
  <li className={tone}>
    <Icon name={icon} />
    <div>
      {href === null ? <strong>{title}</strong> : <Link href={href}>{title}</Link>}
      <p className="quiet small">{children}</p>
    </div>
    {onDismiss !== undefined && (
      <button type="button" className="icon-button" onClick={onDismiss}>
        <Icon name="close" />
        <span className="unseen">Dismiss: {title}</span>
      </button>
    )}
  </li>
);
