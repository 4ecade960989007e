import { lazy, type ReactNode, Suspense, useSyncExternalStore } from 'react';
import { Link } from 'wouter';
import { type CommandPhase, commandPhaseOf, commandStatuses } from '../../../src/domain/command.ts';
import type { OverviewRecord } from '../api/answer-types.ts';
import { useChosenTenant, withTenant } from '../platform/tenant-choice.tsx';
import { useSession } from '../session.tsx';
import { humanize } from '../ui/text-format.ts';
import type { Tone } from '../ui/tone.ts';
import type { Series } from './counters.ts';
import { describeRates, rateText } from './rate-window.ts';
import { currentRates, subscribeRates } from './rates.ts';

// The chart library is loaded after the numbers are shown.
const LiveLine = lazy(() => import('./sparkline.tsx').then((module) => ({ default: module.Sparkline })));

export function DevicesFigure({
  devices: { total, online },
  children,
}: Pick<OverviewRecord, 'devices'> & { children?: ReactNode }) {
  const ratio = total === 0 ? 0 : online / total;
  return (
    <Figure title="Devices online">
      <p className="big">
        {online.toLocaleString()} <span className="quiet">of {total.toLocaleString()}</span>
      </p>
      <div className="bar" aria-hidden="true">
        <span className="good" style={{ flexGrow: ratio }} />
        <span style={{ flexGrow: 1 - ratio }} />
      </div>
      <p className="quiet small">
        {total === 0
          ? 'No active devices.'
          : online === total
            ? 'All devices online.'
            : `${(total - online).toLocaleString()} offline`}
      </p>
      {children}
    </Figure>
  );
}

const titles = {
  succeeded: 'succeeded',
  deciding: 'in progress',
  executing: 'in progress',
  confirming: 'waiting for confirmation',
  failed: 'failed',
  not_sent: 'not sent',
} as const satisfies Record<CommandPhase, string>;

/** In the order in which they are shown. */
const groups: readonly { title: (typeof titles)[CommandPhase]; tone: Tone }[] = [
  { title: 'succeeded', tone: 'good' },
  { title: 'in progress', tone: 'info' },
  { title: 'waiting for confirmation', tone: 'warn' },
  { title: 'failed', tone: 'bad' },
  { title: 'not sent', tone: 'quiet' },
];

export function CommandsFigure({ commands }: Pick<OverviewRecord, 'commands'>) {
  const { may } = useSession();
  const tenant = useChosenTenant();
  const counts = groups.map((group) => {
    const statuses = commandStatuses.filter((status) => titles[commandPhaseOf(status)] === group.title);
    return { ...group, statuses, number: statuses.reduce((sum, status) => sum + commands[status], 0) };
  });
  const total = counts.reduce((sum, { number }) => sum + number, 0);
  return (
    <Figure title="Commands in the last hour">
      <p className="big">{total.toLocaleString()}</p>
      <div className="bar" aria-hidden="true">
        {counts.map(
          ({ title, tone, number }) => number > 0 && <span key={title} className={tone} style={{ flexGrow: number }} />,
        )}
      </div>
      <ul className="parts">
        {counts
          .filter(({ number }) => number > 0)
          .map(({ title, tone, number, statuses }) => (
            <li
              key={title}
              className={tone}
              title={statuses.map((status) => `${humanize(status)}: ${commands[status]}`).join(', ')}
            >
              <strong>{number.toLocaleString()}</strong> {title}
            </li>
          ))}
      </ul>
      {total === 0 && <p className="quiet small">No commands.</p>}
      {(tenant !== null || may('admin')) && total > 0 && (
        <p className="small">
          <Link href={withTenant('/actors?kind=command', tenant)}>Show commands</Link>
        </p>
      )}
    </Figure>
  );
}

const lines: readonly { series: Series; title: string; about: string }[] = [
  { series: 'messages', title: 'Messages per second', about: 'Verified device messages' },
  { series: 'turns', title: 'Commits per second', about: 'Group commits of actors' },
  { series: 'refusals', title: 'Rejected messages per second', about: 'Invalid signature, sequence number or payload' },
];

/** Rates of the entire service: the metrics have no tenant label. */
export function RateFigures() {
  const rates = useSyncExternalStore(subscribeRates, currentRates);
  return lines.map(({ series, title, about }) => {
    const value = rates[series].at(-1) ?? null;
    const text = value === null ? '…' : rateText(value);
    return (
      <Figure key={series} title={title}>
        <p className="big">{text}</p>
        <Suspense fallback={<div className="live-line" />}>
          <LiveLine rates={rates} series={series} label={`${title}: ${describeRates(rates, series)}`} />
        </Suspense>
        <p className="quiet small">{about}</p>
      </Figure>
    );
  });
}

const Figure = ({ title, children }: { title: string; children: ReactNode }) => (
  <section className="card figure">
    <h2>{title}</h2>
    {children}
  </section>
);
