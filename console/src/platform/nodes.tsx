import { useGet } from '../api/queries.ts';
import { ConfirmButton } from '../ui/confirm-button.tsx';
import { LoadError, Loading, Note, Pill } from '../ui/feedback.tsx';
import { Table } from '../ui/table.tsx';
import { counted } from '../ui/text-format.ts';
import { Time } from '../ui/time.tsx';
import { changeOf, type ListedNode, leaseAge, memory, type NodesBody, percentage, stateTones } from './node-display.ts';
import '../administration/administration.css';

const NODES = '/v1/admin/nodes';
const REFRESH_MS = 5_000;

const columns = [
  ...['Node', 'State', 'Shards', 'Tenants', 'Devices', 'Sessions', 'Actors'],
  ...['Processor', 'Memory', 'Event loop', 'Lease age', 'Moves', 'Started', 'Actions'],
];

/** Processes of the service, for platform operators. */
export function NodesPage() {
  const { data, error, refetch } = useGet<NodesBody>(NODES, { refetchIntervalMs: REFRESH_MS });
  return (
    <>
      <header className="page-head">
        <div>
          <h1>Nodes</h1>
          <p className="quiet">The processes of the service. Each runs the tenants in its shards.</p>
        </div>
      </header>
      {data === undefined ? (
        error === null ? (
          <Loading what="Loading nodes" />
        ) : (
          <LoadError problem={error} retry={refetch} />
        )
      ) : (
        <>
          {data.shards_without_owner > 0 && (
            <Note tone="bad">
              {counted(data.shards_without_owner, 'shard')} without an owner. Requests of the tenants in them are
              refused.
              {data.shards_unreadable > 0 &&
                ` ${counted(data.shards_unreadable, 'shard')} can only be read by a newer version: start a node of it.`}
            </Note>
          )}
          <section className="card" aria-label="Live nodes">
            <Table label="Nodes" columns={columns}>
              {data.nodes.map((node) => (
                <NodeRow key={node.id} node={node} all={data.nodes} />
              ))}
            </Table>
          </section>
        </>
      )}
    </>
  );
}

function NodeRow({ node, all }: { node: ListedNode; all: readonly ListedNode[] }) {
  return (
    <tr>
      <th scope="row">
        {node.number} <span className="quiet small">{node.address}</span>{' '}
        <span className="quiet small">version {node.build}</span>
      </th>
      <td>
        <Pill tone={stateTones[node.state]}>{node.state}</Pill>
      </td>
      <td>{node.shards}</td>
      <td>{node.tenants.toLocaleString()}</td>
      <td>{node.devices.toLocaleString()}</td>
      <LoadCells load={node.load} />
      <td>{leaseAge(node.lease_age_ms)}</td>
      <td className="whole-lines">
        {node.shards_opened === null ? '–' : `${node.shards_opened} opened\n${node.shards_handed_over} handed over`}
      </td>
      <td className="quiet">
        <Time at={node.started_at} />
      </td>
      <td>
        <NodeChange node={node} all={all} />
      </td>
    </tr>
  );
}

const LoadCells = ({ load }: Pick<ListedNode, 'load'>) => (
  <>
    <td>{load === null ? '–' : load.device_sessions.toLocaleString()}</td>
    <td>{load === null ? '–' : load.live_actors.toLocaleString()}</td>
    <td>{load === null ? '–' : percentage(load.cpu_share)}</td>
    <td>{load === null ? '–' : memory(load.rss_bytes)}</td>
    <td>{load === null ? '–' : `${load.event_loop_delay_ms} ms`}</td>
  </>
);

function NodeChange({ node, all }: { node: ListedNode; all: readonly ListedNode[] }) {
  const change = changeOf(node, all);
  if (change === null) return <span className="quiet">–</span>;
  const name = `node ${node.number}`;
  const drains = change === 'drain';
  return (
    <div className="row-actions">
      <ConfirmButton
        label={drains ? 'Drain' : 'Resume'}
        about={name}
        title={`${drains ? 'Drain' : 'Resume'} ${name}?`}
        confirmLabel={drains ? 'Drain node' : 'Resume node'}
        tone={drains ? 'danger' : 'primary'}
        change={{ method: 'POST', path: `${NODES}/${node.id}/${change}` }}
        stalePaths={[NODES]}
      >
        <p>
          {drains
            ? 'Its shards move to the other nodes. It forwards requests and connections until it is stopped or resumed.'
            : 'It gets its part of the shards again.'}
        </p>
      </ConfirmButton>
    </div>
  );
}
