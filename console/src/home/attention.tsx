import type { ReactNode } from 'react';
import { Link } from 'wouter';
import type { ActorKind, ActorPage, ConfirmationPage, Overview } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { deviceHref } from '../devices/device-name.tsx';
import { planHref } from '../plans/plan-display.ts';
import { withTenant } from '../platform/tenant-choice.tsx';
import { useSession } from '../session.tsx';
import { LoadError, Loading } from '../ui/feedback.tsx';
import { Icon, type IconName } from '../ui/icons.tsx';
import { abbreviateId, sentenceCase } from '../ui/text-format.ts';
import { Countdown, Time } from '../ui/time.tsx';

const EVERY_MS = 10_000;

/** What somebody should look at, most pressing first. */
export function Attention({ overview, tenant }: { overview: Overview; tenant: string | null }) {
  const { may } = useSession();
  const sees = tenant !== null || may('admin');
  const waiting = useGet<ConfirmationPage>('/v1/confirmations?limit=5', {
    refetchIntervalMs: EVERY_MS,
    // Those of another tenant are not an operator's to answer.
    enabled: may('user') && tenant === null,
  });
  const held = useGet<ActorPage>(withTenant('/v1/actors?quarantined=true&limit=5', tenant), {
    refetchIntervalMs: EVERY_MS,
    enabled: sees,
  });
  const inspect = (kind: ActorKind, id: string): string | null =>
    sees ? withTenant(`/actors/${kind}/${id}`, tenant) : null;
  // Their own pages are of the reader's tenant alone.
  const planOf = (id: string): string | null => (tenant === null && may('viewer') ? planHref(id) : inspect('plan', id));
  const deviceOf = (id: string): string | null =>
    tenant === null && may('user') ? deviceHref(id) : inspect('device', id);
  const failed = waiting.error ?? held.error;
  if (failed !== null && waiting.data === undefined && held.data === undefined) {
    return <LoadError problem={failed} retry={() => Promise.all([waiting.refetch(), held.refetch()])} />;
  }
  if (waiting.isLoading || held.isLoading) return <Loading what="Looking around" />;
  const confirmations = waiting.data?.confirmations ?? [];
  const quarantined = held.data?.actors ?? [];
  const { failing_devices: failing, failed_rollbacks: rollbacks } = overview;
  if (confirmations.length + quarantined.length + failing.length + rollbacks.length === 0) {
    return (
      <p className="all-well">
        <Icon name="good" /> Nothing needs you now.
      </p>
    );
  }
  return (
    <ul className="attention">
      {rollbacks.map(({ id, name, since }) => (
        <Item key={id} icon="plan" tone="bad" href={planOf(id)} title={`${name ?? 'A plan'} could not be undone`}>
          It failed, and so did a step of its rollback, <Time at={since} />: somebody has to look at the devices.
        </Item>
      ))}
      {quarantined.map(({ kind, id, name, since }) => (
        <Item key={id} icon="warning" tone="bad" href={inspect(kind, id)} title={`${name ?? `A ${kind}`} is held back`}>
          It failed again and again; its state is from <Time at={since} />.
        </Item>
      ))}
      {confirmations.map(({ command_id, action, expires_at }) => (
        <Item
          key={command_id}
          icon="confirm"
          tone="warn"
          href="/confirmations"
          title={`${sentenceCase(action)} waits for a confirmation`}
        >
          It expires <Countdown until={expires_at} />.
        </Item>
      ))}
      {failing.map(({ id, name, failures }) => (
        <Item
          key={id}
          icon="device"
          tone="warn"
          href={deviceOf(id)}
          title={`${name ?? `Device ${abbreviateId(id)}`} fails`}
        >
          {failures === 1 ? 'A command' : `${failures} commands`} of the last hour failed or had no answer.
        </Item>
      ))}
    </ul>
  );
}

interface ItemProps {
  icon: IconName;
  tone: 'warn' | 'bad';
  /** Null where the reader may not look further. */
  href: string | null;
  title: string;
  children: ReactNode;
}

const Item = ({ icon, tone, href, title, children }: ItemProps) => (
  <li className={tone}>
    <Icon name={icon} />
    <div>
      {href === null ? <strong>{title}</strong> : <Link href={href}>{title}</Link>}
      <p className="quiet small">{children}</p>
    </div>
  </li>
);
