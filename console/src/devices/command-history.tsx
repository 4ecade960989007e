import { Link } from 'wouter';
import { deviceErrorText } from '../../../src/domain/device-error-text.ts';
import type { listCommands } from '../../../src/operations/commands/command-view.ts';
import type { ResponseBody } from '../api/answer-types.ts';
import { useGet } from '../api/queries.ts';
import { commandHref, StatusPill } from '../commands/status.tsx';
import { LoadError, Loading } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { sentenceCase } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { formatBrief, formatValue } from '../ui/values.tsx';
import { knownParamUnits } from './known-units.ts';

type CommandNotes = Pick<
  ResponseBody<typeof listCommands>['commands'][number],
  'status' | 'progress' | 'refusal' | 'error'
>;

/** Progress of a running command, or why it was refused or failed. */
export function CommandNote({ of: { status, progress, refusal, error } }: { of: CommandNotes }) {
  const text =
    refusal?.detail ??
    (status === 'in_progress' && progress !== undefined ? `Progress: ${formatValue(progress)}` : null) ??
    (status === 'failed' && error !== undefined ? deviceErrorText(error) : null);
  if (text === null) return null;
  return (
    <p className="quiet small what">
      {text} {refusal !== undefined && <code>{refusal.code}</code>}
    </p>
  );
}

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
          {data.commands.map(({ id: commandId, action, params, timestamp, ...command }) => (
            <tr key={commandId}>
              <th scope="row">
                <Link href={commandHref(commandId)}>{sentenceCase(action)}</Link>{' '}
                <span className="quiet small">{formatBrief(params, knownParamUnits(action))}</span>
              </th>
              <td>
                <StatusPill status={command.status} />
                <CommandNote of={command} />
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
