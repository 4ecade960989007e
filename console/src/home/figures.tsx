import { lazy, type ReactNode, Suspense, useSyncExternalStore } from 'react';
import { Link } from 'wouter';
import type { Overview } from '../api/answer-types.ts';
import { useChosenTenant, withTenant } from '../platform/tenant-choice.tsx';
import { useSession } from '../session.tsx';
import { humanize } from '../ui/text-format.ts';
import type { Tone } from '../ui/tone.ts';
import type { Series } from './counters.ts';
import { currentRates, subscribeRates } from './rates.ts';

// Drawn after the numbers are there.
const LiveLine = lazy(() => import('./sparkline.tsx').then((module) => ({ default: module.Sparkline })));

export function DevicesFigure({ devices: { total, online } }: Pick<Overview, 'devices'>) {
  const part = total === 0 ? 0 : online / total;
  return (
    <Figure title="Devices online">
      <p className="big">
        {online.toLocaleString()} <span className="quiet">of {total.toLocaleString()}</span>
      </p>
      <div className="bar" aria-hidden="true">
        <span className="good" style={{ flexGrow: part }} />
        <span style={{ flexGrow: 1 - part }} />
      </div>
      <p className="quiet small">
        {total === 0
          ? 'Register the first one.'
          : online === total
            ? 'All of them are there.'
            : `${(total - online).toLocaleString()} silent.`}
      </p>
    </Figure>
  );
}

const groups: readonly { title: string; tone: Tone; statuses: readonly (keyof Overview['commands'])[] }[] = [
  { title: 'succeeded', tone: 'good', statuses: ['succeeded'] },
  { title: 'under way', tone: 'info', statuses: ['submitted', 'dispatched', 'acknowledged', 'in_progress'] },
  { title: 'waiting for somebody', tone: 'warn', statuses: ['awaiting_confirmation'] },
  { title: 'failed', tone: 'bad', statuses: ['failed', 'timed_out'] },
  { title: 'not sent', tone: 'quiet', statuses: ['rejected', 'expired', 'cancelled'] },
];

export function CommandsFigure({ commands }: Pick<Overview, 'commands'>) {
  const { may } = useSession();
  const tenant = useChosenTenant();
  const counted = groups.map((group) => ({
    ...group,
    number: group.statuses.reduce((all, status) => all + commands[status], 0),
  }));
  const all = counted.reduce((sum, { number }) => sum + number, 0);
  return (
    <Figure title="Commands in the last hour">
      <p className="big">{all.toLocaleString()}</p>
      <div className="bar" aria-hidden="true">
        {counted.map(
          ({ title, tone, number }) => number > 0 && <span key={title} className={tone} style={{ flexGrow: number }} />,
        )}
      </div>
      <ul className="parts">
        {counted
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
      {all === 0 && <p className="quiet small">None was asked for.</p>}
      {(tenant !== null || may('admin')) && all > 0 && (
        <p className="small">
          <Link href={withTenant('/actors?kind=command', tenant)}>Look at them</Link>
        </p>
      )}
    </Figure>
  );
}

const lines: readonly { series: Series; title: string; about: string }[] = [
  { series: 'messages', title: 'Messages a second', about: 'Verified, from devices' },
  { series: 'turns', title: 'Turns a second', about: 'Commits of actors, many in one' },
  { series: 'refusals', title: 'Refusals a second', about: 'Messages of devices that were not believed' },
];

/** Of the whole service: its counters know no tenant. */
export function RateFigures() {
  const rates = useSyncExternalStore(subscribeRates, currentRates);
  return lines.map(({ series, title, about }) => {
    const value = rates[series].at(-1);
    const text = value === undefined ? '…' : value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString();
    return (
      <Figure key={series} title={title}>
        <p className="big">{text}</p>
        <Suspense fallback={<div className="live-line" />}>
          <LiveLine rates={rates} series={series} label={`${title} in the last minutes; now ${text}`} />
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
