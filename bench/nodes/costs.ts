import { checkLimit, median } from '../support/figures.ts';
import type { Options } from '../support/options.ts';
import type { Cluster } from '../support/postgres.ts';
import type { PacedLoad, PacedResult } from './load.ts';
import { NodeGroup, type Place } from './node-group.ts';

/** Tenants and devices of each node that are connected, and the rates of each node. */
export interface CostSize {
  tenants: number;
  devices: number;
  perSecond: Record<PacedLoad['what'], number>;
  milliseconds: number;
  /** Subjects with more nodes are left out. */
  mostNodes: number;
  warmUps: number;
  tries: number;
}

type LoadRate = 'each node' | 'all nodes';

/** What is measured in each round, in turn with the others. */
interface Subject {
  group: string;
  nodes: number;
  place: Place;
  /** Whether each node has the rate of the single process, or all of them together. */
  rate: LoadRate;
  /** Maximum ratio to the single process; null: the ratio is only printed. */
  atMost: number | null;
}

/** Processor time in µs for a message. */
interface Cost {
  nodes: number;
  database: number;
  /** How long the load took, as a multiple of what its rate allows. */
  delay: number;
}

/** The cost of a subject, and that of the reference in the same round. */
interface Pair {
  cost: Cost;
  reference: Cost;
}

/** A load that takes longer, as a multiple of its time, was not at its rate. */
const DELAYED = 1.1;
/** Processes without load return memory within a minute. */
const SETTLE_MS = 60_000;
const IDLE_MS = 20_000;
const WITHOUT_HOP = 1.1;
const WITH_HOP = 1.5;

const subject = (nodes: number, place: Place, rate: LoadRate, atMost: number | null): Subject => ({
  ...{ group: `nodes${nodes}`, nodes, place, rate, atMost },
});

/** The first one is the reference: a process that has the database to itself. */
const SUBJECTS: readonly Subject[] = [
  { group: 'sole', nodes: 1, place: 'owner', rate: 'each node', atMost: null },
  subject(1, 'owner', 'each node', WITHOUT_HOP),
  subject(2, 'owner', 'each node', WITHOUT_HOP),
  subject(4, 'owner', 'each node', WITHOUT_HOP),
  subject(2, 'any node', 'each node', WITH_HOP),
  subject(4, 'any node', 'each node', WITH_HOP),
  subject(4, 'owner', 'all nodes', null),
];

const describe = ({ group, nodes, place, rate }: Subject): string =>
  group === 'sole'
    ? 'a process without NODE_ADDRESS'
    : `${nodes} ${nodes === 1 ? 'node' : 'nodes'}${nodes === 1 ? '' : `, clients at ${place === 'owner' ? 'the owner' : 'any node'}`}` +
      (rate === 'all nodes' ? ', the rate of one node divided among them' : '');

const unit = (what: PacedLoad['what']) => (what === 'state' ? 'durable message' : 'command');

/** Measures what a message and a command cost on one node and on several, and judges the ratios. */
export async function measureCosts(
  cluster: Cluster,
  size: CostSize,
  { short, profile }: Pick<Options, 'short' | 'profile'>,
): Promise<void> {
  const subjects = SUBJECTS.filter(({ nodes }) => nodes <= size.mostNodes);
  const groups = new Map<string, NodeGroup>();
  for (const { group: name, nodes } of subjects) {
    if (groups.has(name)) continue;
    // Placement is even only on average: with four times as many tenants, a node has too few in less than one of
    // 10,000 starts.
    const tenants = nodes === 1 ? size.tenants : size.tenants * nodes * 4;
    const options = { name, nodes, shared: name !== 'sole', tenants, devices: size.devices, profile };
    groups.set(name, await NodeGroup.start(cluster, options));
  }
  const connected = size.tenants * size.devices;
  console.log(
    `each node: ${connected} devices of ${size.tenants} tenants, ${size.perSecond.state} state messages/s, then ${size.perSecond.command} commands/s, ${size.milliseconds / 1000} s each`,
  );
  await printIdleCosts(cluster, [...groups.values()], short);
  const costs = new Map(subjects.map((one) => [one, { state: [] as Cost[], command: [] as Cost[] }] as const));
  for (let n = 1 - size.warmUps; n <= size.tries; n += 1) {
    // Each round begins with another subject.
    const from = (n + size.warmUps) % subjects.length;
    for (const one of [...subjects.slice(from), ...subjects.slice(0, from)]) {
      const group = groups.get(one.group) as NodeGroup;
      await group.connect(one.rate === 'each node' ? size.tenants : size.tenants / one.nodes, one.place);
      for (const what of ['state', 'command'] as const) {
        const cost = await measure(cluster, group, loadOf(one, what, size));
        if (n >= 1) costs.get(one)?.[what].push(cost);
      }
      await group.disconnect();
    }
    console.log(`  ${n < 1 ? 'warm-up' : `round ${n}`}`);
  }
  for (const what of ['state', 'command'] as const)
    printCosts(what, new Map([...costs].map(([one, all]) => [one, all[what]])), short);
  for (const group of groups.values()) await group.stop();
}

function loadOf({ rate, nodes }: Subject, what: PacedLoad['what'], { perSecond, milliseconds }: CostSize): PacedLoad {
  return { what, perSecond: perSecond[what] * (rate === 'each node' ? nodes : 1), milliseconds };
}

async function measure(cluster: Cluster, group: NodeGroup, load: PacedLoad): Promise<Cost> {
  // Nodes have returned memory while the others were measured.
  await runLoad(group, { ...load, milliseconds: load.milliseconds / 3 });
  const before = { nodes: await group.cpu(), database: cluster.cpuOfDatabase(group.name) };
  const { sent, milliseconds } = await runLoad(group, load);
  return {
    delay: milliseconds / load.milliseconds,
    nodes: ((await group.cpu()) - before.nodes) / sent,
    database: (cluster.cpuOfDatabase(group.name) - before.database) / sent,
  };
}

function runLoad(group: NodeGroup, load: PacedLoad): Promise<PacedResult> {
  group.load.send({ paced: load });
  return group.load.receive<PacedResult>('result');
}

/**
 * Prints the processor time of each group without load, which is part of the costs of messages at any rate. All groups are
 * measured in the same time, when V8 has returned the memory of their start: until then a process may take up to 30 ms a
 * second more.
 */
async function printIdleCosts(cluster: Cluster, groups: readonly NodeGroup[], short: boolean): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, short ? 0 : SETTLE_MS));
  const milliseconds = short ? 400 : IDLE_MS;
  const used = () =>
    Promise.all(
      groups.map(async (group) => ({ nodes: await group.cpu(), database: cluster.cpuOfDatabase(group.name) })),
    );
  const before = await used();
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  const perSecond = (microseconds: number) => (microseconds / milliseconds).toFixed(1);
  for (const [n, { nodes, database }] of (await used()).entries()) {
    const { name } = groups[n] as NodeGroup;
    const began = before[n] as { nodes: number; database: number };
    console.log(
      `${name} without load: nodes ${perSecond(nodes - began.nodes)} ms a second, PostgreSQL ${perSecond(database - began.database)} ms`,
    );
  }
}

function printCosts(what: PacedLoad['what'], costs: ReadonlyMap<Subject, readonly Cost[]>, short: boolean): void {
  const [reference = []] = costs.values();
  console.log(`processor time for a ${unit(what)}, in µs (medians of the rounds at the rate):`);
  const total = ({ nodes, database }: Cost) => nodes + database;
  for (const [one, all] of costs) {
    const pairs = all.map((cost, n): Pair => ({ cost, reference: reference[n] as Cost }));
    const counted = short ? pairs : pairs.filter(isAtRate);
    const late = pairs.length - counted.length;
    if (late > 0) console.log(`  ${describe(one)}: ${late} of ${pairs.length} rounds not counted, behind the rate`);
    if (counted.length * 2 < pairs.length) {
      console.log(`  ${describe(one)}: MISSED, the machine is too slow for this rate`);
      process.exitCode = 1;
      continue;
    }
    const figure = (of: (cost: Cost) => number) => median(counted.map(({ cost }) => of(cost))).toFixed(1);
    const ratio = (of: (cost: Cost) => number) => median(counted.map((pair) => of(pair.cost) / of(pair.reference)));
    console.log(
      `  ${describe(one)}: nodes ${figure((cost) => cost.nodes)}, PostgreSQL ${figure((cost) => cost.database)}, ` +
        `together ${figure(total)}; ratio of the nodes ${ratio((cost) => cost.nodes).toFixed(3)}`,
    );
    if (one.group !== 'sole')
      checkLimit('    together, part of a process without NODE_ADDRESS', ratio(total), { atMost: one.atMost, short });
  }
}

/** Whether both loads were at their rate: behind it a load is a closed loop, whose batches are larger. */
const isAtRate = ({ cost, reference }: Pair): boolean => cost.delay <= DELAYED && reference.delay <= DELAYED;
