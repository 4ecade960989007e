import { setTimeout as pause } from 'node:timers/promises';
import type { Command } from 'commander';
import type { Api } from '../api.ts';
import { parseDurationS } from '../argument-parsers.ts';
import { createCliContext } from '../cli-context.ts';
import { FailedError, UsageError } from '../errors.ts';
import type { Io } from '../io.ts';
import { colorStatus, printTable } from '../print.ts';

interface ServiceNode {
  id: string;
  number: number;
  address: string;
  build: string;
  state: string;
  shards: number;
  tenants: number;
  devices: number;
  lease_age_ms: number | null;
  load: {
    live_actors: number;
    device_sessions: number;
    cpu_share: number;
    rss_bytes: number;
    event_loop_delay_ms: number;
  } | null;
  shards_opened: number | null;
  shards_handed_over: number | null;
}

interface NodesAnswer {
  nodes: ServiceNode[];
  shards_without_owner: number;
  /** Absent in answers of version 1.0.0. */
  shards_unreadable?: number;
}

interface ChangeAnswer {
  node_id: string;
  state: string;
}

const NODES = '/v1/admin/nodes';
const POLL_MS = 500;
const DEFAULT_TIMEOUT_S = 300;
const MIB = 1_048_576;
const NODE_ARGUMENT = 'id, number or address of the node, as listed';

export function addNodes(admin: Command, io: Io): void {
  const nodes = admin
    .command('nodes')
    .summary('processes of the service')
    .description('Lists, drains and resumes the nodes: the processes of the service on one database.')
    .addHelpText('after', '\nExample, before a node is stopped:\n  twinkeep admin nodes drain 7 --wait');
  addList(nodes, io);
  addDrain(nodes, io);
  addResume(nodes, io);
}

function addList(nodes: Command, io: Io): void {
  nodes
    .command('list')
    .description('Lists the live nodes with their shards and load.')
    .action(async (_options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      show(await api.get<NodesAnswer>(NODES), (answer) => {
        printTable(io, heads, answer.nodes.map(rowOf));
        const lost = answer.shards_without_owner;
        if (lost > 0) io.err(io.errColors.yellow(`shards without an owner: ${lost}`));
        const unreadable = answer.shards_unreadable ?? 0;
        if (unreadable > 0) io.err(io.errColors.yellow(`shards that need a node of a newer version: ${unreadable}`));
      });
    });
}

function addDrain(nodes: Command, io: Io): void {
  nodes
    .command('drain')
    .argument('<node>', NODE_ARGUMENT)
    .description('Moves the shards of a node to the others. It forwards requests until it is stopped or resumed.')
    .option('--wait', 'wait until the node owns no shard; exit with 1 if that takes too long')
    .option('--timeout <time>', 'how long --wait waits', parseDurationS, DEFAULT_TIMEOUT_S)
    .action(async (wanted: string, { wait, timeout }: { wait?: boolean; timeout: number }, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { id } = await findNode(api, wanted);
      const changed = await api.post<ChangeAnswer>(changePath(id, 'drain'));
      if (wait) await waitUntilDrained(api, id, timeout);
      show(wait ? { ...changed, shards: 0 } : changed, ({ state }) =>
        io.out(wait ? 'drained' : colorStatus(io, state)),
      );
    });
}

function addResume(nodes: Command, io: Io): void {
  nodes
    .command('resume')
    .argument('<node>', NODE_ARGUMENT)
    .description('Makes a drained node active: it gets its part of the shards again.')
    .action(async (wanted: string, _options, command: Command) => {
      const { api, show } = createCliContext(io, command);
      const { id } = await findNode(api, wanted);
      show(await api.post<ChangeAnswer>(changePath(id, 'resume')), ({ state }) => io.out(colorStatus(io, state)));
    });
}

const changePath = (id: string, change: 'drain' | 'resume'): string => `${NODES}/${encodeURIComponent(id)}/${change}`;

async function findNode(api: Api, wanted: string): Promise<ServiceNode> {
  const { nodes } = await api.get<NodesAnswer>(NODES);
  const found = nodes.filter(({ id, number, address }) => [id, String(number), address].includes(wanted));
  if (found.length > 1) throw new UsageError(`several nodes have the address '${wanted}': use an id or a number`);
  const [node] = found;
  if (node === undefined) throw new UsageError(`no live node is '${wanted}': run twinkeep admin nodes list`);
  return node;
}

/** A node that has ended owns no shards either. */
async function waitUntilDrained(api: Api, id: string, timeoutS: number): Promise<void> {
  const until = performance.now() + timeoutS * 1_000;
  for (;;) {
    const { nodes } = await api.get<NodesAnswer>(NODES);
    const node = nodes.find((one) => one.id === id);
    if (node === undefined || node.shards === 0) return;
    if (node.state === 'active') throw new FailedError('the node was resumed');
    if (performance.now() >= until) throw new FailedError(`the node still owns ${node.shards} shards`);
    await pause(POLL_MS);
  }
}

const heads = [
  ...['NUMBER', 'ADDRESS', 'STATE', 'BUILD', 'SHARDS', 'TENANTS', 'DEVICES', 'ACTORS', 'SESSIONS'],
  ...['CPU', 'MEMORY', 'DELAY', 'LEASE', 'OPENED', 'MOVED', 'ID'],
];

const rowOf = (node: ServiceNode) => [
  ...[node.number, node.address, node.state, node.build, node.shards, node.tenants, node.devices],
  ...[node.load?.live_actors, node.load?.device_sessions],
  ...(node.load === null
    ? [null, null, null]
    : [
        `${Math.round(node.load.cpu_share * 100)} %`,
        `${Math.round(node.load.rss_bytes / MIB)} MiB`,
        `${node.load.event_loop_delay_ms} ms`,
      ]),
  node.lease_age_ms === null ? null : `${(node.lease_age_ms / 1_000).toFixed(1)} s`,
  ...[node.shards_opened, node.shards_handed_over, node.id],
];
