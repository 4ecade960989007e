import { setTimeout as pause } from 'node:timers/promises';
import { eventually } from '../support/clock.ts';
import { resumeProcess, suspendProcess } from '../support/two-processes.ts';
import { type NemesisCluster, type Place, PROGRESS_MS } from './cluster.ts';

/** Random number in [0, 1). */
export type Random = () => number;

/** A fault of one node or of the database; it is healed when `run` resolves. */
interface Fault {
  name: string;
  /** `quick`: over within seconds. `slow`: several times the lease, or a new server. `long`: up to a minute. */
  kind: 'quick' | 'slow' | 'long';
  /** Returns the details for the log. */
  run(parts: { cluster: NemesisCluster; place: Place; random: Random }): Promise<string>;
}

const between = (random: Random, least: number, most: number): number => least + random() * (most - least);
export const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

/** `range`: the shortest time in milliseconds, and the longest for a lease. */
const forAWhile = (
  name: string,
  kind: Fault['kind'],
  range: (lease: number) => readonly [number, number],
  begin: (place: Place) => void,
): Fault => ({
  name,
  kind,
  async run({ cluster, place, random }) {
    const ms = between(random, ...range(cluster.timing.lease));
    const { pid } = place.process;
    begin(place);
    await pause(ms);
    for (const proxy of [place.proxy, place.link]) proxy.restore();
    resumeProcess(pid);
    return seconds(ms);
  },
});

/** Shorter than a lease, so that no shard is taken over. */
const belowLease = (lease: number) => [300, 0.8 * lease] as const;
/** From below a lease to long after another node has taken over. */
const aroundLease = (lease: number) => [0.5 * lease, 2 * lease] as const;
/** Another node takes over, and serves for a while. */
const aboveLease = (lease: number) => [1.2 * lease, 3 * lease] as const;
const MAX_PAUSE_MS = 60_000;
/** A service trusts clocks that are less than a minute apart. */
const MAX_CLOCK_OFFSET_MS = 50_000;

/** An operator drains the node, and resumes it or stops it. */
async function drain({ cluster, place, random }: Parameters<Fault['run']>[0]): Promise<string> {
  const id = await cluster.nodeAt(place);
  if (id === null) return 'the node was not active';
  const operator = await cluster.operator();
  const change = (what: string) => operator.post(`/v1/admin/nodes/${id}/${what}`).then(({ status }) => status);
  const drained = await change('drain').catch(() => null);
  const ms = between(random, 300, 3_000);
  await pause(ms);
  if (random() < 0.3) {
    await place.process.kill('SIGTERM');
    return `${drained}, stopped after ${seconds(ms)}`;
  }
  // Refused if the node has ended meanwhile, or was not drained.
  await eventually(async () => (await change('resume')) < 500, PROGRESS_MS);
  return `${drained}, resumed after ${seconds(ms)}`;
}

/** A node joins and leaves again. */
async function join({ cluster, random }: Parameters<Fault['run']>[0]): Promise<string> {
  const place = await cluster.addPlace();
  const ms = between(random, 300, 3_000);
  const signal = random() < 0.5 ? 'SIGTERM' : 'SIGKILL';
  await pause(ms);
  await cluster.removePlace(place, signal);
  return `${seconds(ms)}, left with ${signal}`;
}

const faults: readonly Fault[] = [
  {
    name: 'kill',
    kind: 'quick',
    async run({ place }) {
      await place.process.kill('SIGKILL');
      return '';
    },
  },
  {
    name: 'stop',
    kind: 'quick',
    async run({ place }) {
      const { code } = await place.process.kill('SIGTERM');
      return `ended with ${code}`;
    },
  },
  { name: 'drain', kind: 'quick', run: drain },
  { name: 'join', kind: 'slow', run: join },
  forAWhile('pause below the lease', 'quick', belowLease, ({ process }) => suspendProcess(process.pid)),
  forAWhile('pause around the lease', 'slow', aroundLease, ({ process }) => suspendProcess(process.pid)),
  forAWhile(
    'long pause',
    'long',
    () => [1_000, MAX_PAUSE_MS],
    ({ process }) => suspendProcess(process.pid),
  ),
  forAWhile('database unreachable', 'quick', belowLease, ({ proxy }) => proxy.cut()),
  forAWhile('database slow for a moment', 'quick', belowLease, ({ proxy }) => proxy.hold()),
  forAWhile('database slow', 'slow', aboveLease, ({ proxy }) => proxy.hold()),
  forAWhile('database silent', 'slow', aroundLease, ({ proxy }) => proxy.silence()),
  forAWhile('statements of the database lost', 'slow', aroundLease, ({ proxy }) => proxy.silence('requests')),
  forAWhile('answers of the database lost', 'slow', aroundLease, ({ proxy }) => proxy.silence('responses')),
  {
    name: 'database connections half-open',
    kind: 'slow',
    run: async ({ place: { proxy } }) => `${proxy.freeze()} connections`,
  },
  {
    name: 'database connection of the lock half-open',
    kind: 'slow',
    run: async ({ place: { proxy } }) => `${proxy.freeze('active lock')} connections`,
  },
  forAWhile('unreachable for other nodes', 'quick', belowLease, ({ link }) => link.cut()),
  forAWhile('slow for other nodes', 'slow', aroundLease, ({ link }) => link.hold()),
  forAWhile('silent for other nodes', 'slow', aroundLease, ({ link }) => link.silence()),
  forAWhile('requests of other nodes lost', 'slow', aroundLease, ({ link }) => link.silence('requests')),
  forAWhile('answers to other nodes lost', 'slow', aroundLease, ({ link }) => link.silence('responses')),
  {
    name: 'connections of other nodes half-open',
    kind: 'slow',
    run: async ({ place: { link } }) => `${link.freeze()} connections`,
  },
  {
    name: 'clock set',
    kind: 'quick',
    async run({ place, random }) {
      const ms = between(random, -MAX_CLOCK_OFFSET_MS, MAX_CLOCK_OFFSET_MS);
      // A node that ends meanwhile starts with the right time.
      await place.process.moveClock(ms).catch(() => {});
      return seconds(ms);
    },
  },
  {
    name: 'database restarted',
    kind: 'quick',
    async run({ cluster }) {
      await cluster.restartDatabase();
      return '';
    },
  },
  {
    name: 'standby of the database promoted',
    kind: 'slow',
    async run({ cluster, random }) {
      const oldRunsMs = random() < 0.5 ? null : random() * 2 * cluster.timing.lease;
      await cluster.failOver(oldRunsMs);
      return oldRunsMs === null ? 'the old one ended' : `the old one kept running for ${seconds(oldRunsMs)}`;
    },
  },
];

export const faultNames: readonly string[] = faults.map(({ name }) => name);
export const quickFaults: readonly string[] = faults.filter(({ kind }) => kind === 'quick').map(({ name }) => name);

/** Part of the draws that may be a long fault. */
const LONG_SHARE = 0.02;

/** One of the faults with these names, or of all; a long one is rare. */
export function nextFault(random: Random, names?: readonly string[]): Fault {
  const long = random() < LONG_SHARE;
  const named = faults.filter(({ name }) => names === undefined || names.includes(name));
  const ofKind = named.filter(({ kind }) => (kind === 'long') === long);
  const eligible = ofKind.length > 0 ? ofKind : named;
  return eligible[Math.floor(random() * eligible.length)] as Fault;
}
