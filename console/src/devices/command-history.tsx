import { Link } from 'wouter';
import type { listCommands } from '../../../src/operations/commands/command-view.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { commandHref, StatusPill } from '../commands/status.tsx';
import { LoadError, Loading } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { formatBrief } from '../ui/values.tsx';

/** The latest commands of a device. */
export function CommandHistory({ id }: { id: string }) {
  const { data, error, refetch } = useGet<ResponseBody<typeof listCommands>>(`/v1/device/${id}/commands?limit=10`);
  return (
    <section className="card" aria-labelledby="history">
      <header>
        <h2 id="history">Recent commands</h2>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading commands" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : data.commands.length === 0 ? (
        <p className="quiet">No commands yet.</p>
      ) : (
        <Table label="Recent commands" columns={['Command', 'Status', 'Requested']}>
          {data.commands.map(({ id: commandId, action, params, status, timestamp }) => (
            <tr key={commandId}>
              <th scope="row">
                <Link href={commandHref(commandId)}>{sentenceCase(action)}</Link>{' '}
                <span className="quiet small">{formatBrief(params)}</span>
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
