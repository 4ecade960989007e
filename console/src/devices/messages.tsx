import { LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { humanize } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { useDeviceActivity } from './twin.tsx';

/** What it said lately, and what of it was not taken. */
export function Messages({ id }: { id: string }) {
  const { data, error, refetch } = useDeviceActivity(id);
  const activity = data?.activity;
  return (
    <section className="card" aria-labelledby="messages">
      <header>
        <h2 id="messages">Messages and refusals</h2>
        <p className="quiet small">
          {activity === undefined
            ? ''
            : activity.refused === 0
              ? 'none was ever refused'
              : `${activity.refused.toLocaleString()} refused in all`}
        </p>
      </header>
      {activity === undefined &&
        (error === null ? <Loading what="Loading the messages" /> : <LoadError problem={error} retry={refetch} />)}
      {activity !== undefined && activity.messages.length === 0 && (
        <p className="quiet">
          Nothing since the service was started, <Time at={activity.since} />.
        </p>
      )}
      {activity !== undefined && activity.messages.length > 0 && (
        <Table label="Last messages" columns={['When', 'Channel', 'Number', 'Outcome']}>
          {activity.messages.map(({ at, channel, sequence_number, outcome, code }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two refusals may be alike in everything
            <tr key={`${at} ${sequence_number} ${index}`}>
              <td>
                <Time at={at} exact />
              </td>
              <td>{humanize(channel)}</td>
              <td>{sequence_number ?? '—'}</td>
              <td>
                {outcome === 'refused' ? (
                  <Pill tone="bad">{humanize(code ?? 'refused').toLowerCase()}</Pill>
                ) : (
                  <span className="quiet">{outcome}</span>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
