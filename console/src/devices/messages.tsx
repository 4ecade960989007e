import { LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { counted, humanize } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { useDeviceActivity } from './twin.tsx';

type Connection = NonNullable<ReturnType<typeof useDeviceActivity>['data']>['activity']['connections'][number];

/** When the device connected and disconnected, and its changes of firmware. */
export function Connections({ id }: { id: string }) {
  const { data } = useDeviceActivity(id);
  if (data === undefined || data.activity.connections.length === 0) return null;
  return (
    <section className="card" aria-labelledby="connections">
      <header>
        <h2 id="connections">Connection history</h2>
      </header>
      <Table label="Connection history" columns={['Time', 'Event']}>
        {data.activity.connections.map((one, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: two entries may be identical
          <tr key={`${one.at} ${one.event} ${index}`}>
            <td>
              <Time at={one.at} exact />
            </td>
            <td>{connectionText(one)}</td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

function connectionText({ event, firmware, previous_firmware }: Connection) {
  switch (event) {
    case 'online':
      return <Pill tone="good">online</Pill>;
    case 'offline':
      return <Pill tone="quiet">offline</Pill>;
    case 'hello':
      return firmware === null ? 'Hello' : `Hello, firmware ${firmware}`;
    case 'firmware':
      return previous_firmware === null
        ? `Firmware ${firmware} reported for the first time`
        : `Firmware changed from ${previous_firmware} to ${firmware}`;
  }
}

/** Recent messages of a device, and its rejected ones. They are removed when it is revoked. */
export function Messages({ id, revoked }: { id: string; revoked: boolean }) {
  const { data, error, refetch } = useDeviceActivity(id);
  const activity = data?.activity;
  return (
    <section className="card" aria-labelledby="messages">
      <header>
        <h2 id="messages">Messages</h2>
        <p className="quiet small">
          {activity === undefined
            ? ''
            : activity.refused === 0
              ? 'no rejections'
              : counted(activity.refused, 'rejection')}
        </p>
      </header>
      {activity === undefined &&
        (error === null ? <Loading what="Loading messages" /> : <LoadError problem={error} retry={refetch} />)}
      {activity !== undefined && activity.messages.length === 0 && (
        <p className="quiet">
          {revoked ? (
            'The messages were removed when the device was revoked. A revoked device cannot send others.'
          ) : (
            <>
              No messages since the service started, <Time at={activity.since} />, or since the device was reinstated.
            </>
          )}
        </p>
      )}
      {activity !== undefined && activity.messages.length > 0 && (
        <Table label="Recent messages" columns={['Time', 'Channel', 'Sequence number', 'Outcome']}>
          {activity.messages.map(({ at, channel, sequence_number, outcome, code }, index) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two rejections may be identical
            <tr key={`${at} ${sequence_number} ${index}`}>
              <td>
                <Time at={at} exact />
              </td>
              <td>{humanize(channel)}</td>
              <td>{sequence_number ?? '—'}</td>
              <td>
                {outcome === 'refused' ? (
                  <Pill tone="bad">{humanize(code ?? 'rejected').toLowerCase()}</Pill>
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
