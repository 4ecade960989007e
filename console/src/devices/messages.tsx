import { Failure, Loading, Pill } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { plain } from '../ui/words.ts';
import { useActivity } from './twin.tsx';

/** What it said lately, and what of it was not taken. */
export function Messages({ id }: { id: string }) {
  const { data, error, refetch } = useActivity(id);
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
        (error === null ? <Loading what="Loading the messages" /> : <Failure problem={error} retry={refetch} />)}
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
              <td>{plain(channel)}</td>
              <td>{sequence_number ?? '—'}</td>
              <td>
                {outcome === 'refused' ? (
                  <Pill tone="bad">{plain(code ?? 'refused').toLowerCase()}</Pill>
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
