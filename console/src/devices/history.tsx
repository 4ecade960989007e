import { Link } from 'wouter';
import type { listCommands } from '../../../src/operations/command-view.ts';
import { useGet } from '../api/queries.ts';
import type { Answer } from '../api/shapes.ts';
import { commandHref, StatusPill } from '../commands/status.tsx';
import { Failure, Loading } from '../ui/states.tsx';
import { Table } from '../ui/table.tsx';
import { Time } from '../ui/time.tsx';
import { brief } from '../ui/values.tsx';
import { headline } from '../ui/words.ts';

/** The last commands of a device. */
export function History({ id }: { id: string }) {
  const { data, error, refetch } = useGet<Answer<typeof listCommands>>(`/v1/device/${id}/commands?limit=10`);
  return (
    <section className="card" aria-labelledby="history">
      <header>
        <h2 id="history">Last commands</h2>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading the commands" />
        ) : (
          <Failure problem={error} retry={refetch} />
        )
      ) : data.commands.length === 0 ? (
        <p className="quiet">Nothing was asked of it yet.</p>
      ) : (
        <Table label="Last commands" columns={['Command', 'Status', 'Asked']}>
          {data.commands.map(({ id: commandId, action, params, status, timestamp }) => (
            <tr key={commandId}>
              <th scope="row">
                <Link href={commandHref(commandId)}>{headline(action)}</Link>{' '}
                <span className="quiet small">{brief(params)}</span>
              </th>
              <td>
                <StatusPill status={status} />
              </td>
              <td className="quiet">
                <Time at={timestamp} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}
