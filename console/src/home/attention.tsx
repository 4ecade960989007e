import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { useGet } from '../api/queries.ts';
import type { ActorPage, ConfirmationPage } from '../api/shapes.ts';
import { useSession } from '../session.tsx';
import { Icon } from '../ui/icons.tsx';
import { Failure, Loading } from '../ui/states.tsx';
import { Countdown, Time } from '../ui/time.tsx';

const EVERY_MS = 10_000;

/** What somebody should look at, most pressing first. */
export function Attention() {
  const { may } = useSession();
  const waiting = useGet<ConfirmationPage>('/v1/confirmations?limit=5', { every: EVERY_MS, when: may('user') });
  const held = useGet<ActorPage>('/v1/actors?quarantined=true&limit=5', { every: EVERY_MS, when: may('admin') });
  const failed = waiting.error ?? held.error;
  if (failed !== null && waiting.data === undefined && held.data === undefined) {
    return <Failure problem={failed} retry={() => Promise.all([waiting.refetch(), held.refetch()])} />;
  }
  if (waiting.isLoading || held.isLoading) return <Loading what="Looking around" />;
  const confirmations = waiting.data?.confirmations ?? [];
  const quarantined = held.data?.actors ?? [];
  if (confirmations.length + quarantined.length === 0) {
    return (
      <p className="all-well">
        <Icon name="good" /> Nothing needs you now.
      </p>
    );
  }
  return (
    <ul className="attention">
      {confirmations.map(({ command_id, action, expires_at }) => (
        <Item
          key={command_id}
          tone="warn"
          href={`/actors/command/${command_id}`}
          title={`${action} waits for a confirmation`}
        >
          It expires <Countdown until={expires_at} />.
        </Item>
      ))}
      {quarantined.map(({ kind, id, since }) => (
        <Item key={id} tone="bad" href={`/actors/${kind}/${id}`} title={`A ${kind} is held back`}>
          It failed again and again; its state is from <Time at={since} />.
        </Item>
      ))}
    </ul>
  );
}

interface ItemProps {
  tone: 'warn' | 'bad';
  href: string;
  title: string;
  children: ReactNode;
}

const Item = ({ tone, href, title, children }: ItemProps) => (
  <li className={tone}>
    <Icon name={tone === 'bad' ? 'warning' : 'confirm'} />
    <div>
      <Link href={href}>{title}</Link>
      <p className="quiet small">{children}</p>
    </div>
  </li>
);
