import type { keyHistory } from '../../../src/operations/devices/device-keys.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { LoadError, Loading, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';

const tones = { active: 'good', grace: 'warn', retired: 'quiet', revoked: 'bad' } as const;

/** Key history of a device, without secrets. */
export function DeviceKeys({ id }: { id: string }) {
  const { data, error, refetch } = useGet<ResponseBody<typeof keyHistory>>(`/v1/device/${id}/key-history`);
  return (
    <section className="card" aria-labelledby="keys">
      <header>
        <h2 id="keys">Keys</h2>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading keys" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : (
        <Table label="Keys" columns={['Key', 'Status', 'Created', 'Last used']}>
          {data.keys.map(({ key_version, signing_alg, status, created_at, last_used_at, grace_until }) => (
            <tr key={key_version}>
              <th scope="row">
                {key_version} <span className="quiet small">{signing_alg}</span>
              </th>
              <td>
                <Pill tone={tones[status]}>{status}</Pill>{' '}
                {status === 'grace' && grace_until !== null && (
                  <span className="quiet small">
                    ends <Time at={grace_until} />
                  </span>
                )}
              </td>
              <td className="quiet">
                <Time at={created_at} />
              </td>
              <td className="quiet">
                <Time at={last_used_at} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
