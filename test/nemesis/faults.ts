import { setTimeout as pause } from 'node:timers/promises';
import type { Ports, ServiceProcess } from '../support/spawn-service.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { quickLock, resumeProcess, suspendProcess } from '../support/two-processes.ts';

/** The ports of a node, and the proxies between it, the database and the other nodes. */
export interface Place {
  ports: Ports;
  /** Port of the listener for other nodes. */
  linkPort: number;
  /** Between the node and the database. */
  proxy: TcpProxy;
  /** Between the other nodes and this one; connections of this node to others do not pass it. */
  link: TcpProxy;
  process: ServiceProcess;
}

/** The database server of all nodes. */
export interface DatabaseServer {
  restart(): Promise<void>;
  /** Promotes a standby; the old primary ends, or keeps running for its remaining connections. Returns which. */
  failOver(random: () => number): Promise<string>;
}

/** A fault of one node or of the database; it is healed when it resolves. */
interface Fault {
  name: string;
  /** Returns the details for the log. */
  run(place: Place, random: () => number, database: DatabaseServer): Promise<string>;
}

const between = (random: () => number, least: number, most: number): number => least + random() * (most - least);
export const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

const forAWhile = (name: string, range: readonly [number, number], begin: (place: Place) => void): Fault => ({
  name,
  async run(place, random) {
    const ms = between(random, ...range);
    begin(place);
    await pause(ms);
    for (const proxy of [place.proxy, place.link]) proxy.restore();
    resumeProcess(place.process.pid);
    return seconds(ms);
  },
});

const { lease } = quickLock;
/** A service trusts clocks that are less than a minute apart. */
const MAX_CLOCK_OFFSET_MS = 50_000;

/** Times below the lease, around it and above it. */
const faults: readonly Fault[] = [
  {
    name: 'kill',
    async run({ process }) {
      await process.kill('SIGKILL');
      return '';
    },
  },
  {
    name: 'stop',
    async run({ process }) {
      const { code } = await process.kill('SIGTERM');
      return `ended with ${code}`;
    },
  },
  forAWhile('pause below the lease', [500, lease / 2], ({ process }) => suspendProcess(process.pid)),
  forAWhile('pause above the lease', [lease, 2.5 * lease], ({ process }) => suspendProcess(process.pid)),
  forAWhile('database unreachable', [300, 3_000], ({ proxy }) => proxy.cut()),
  forAWhile('database slow', [300, 1.5 * lease], ({ proxy }) => proxy.hold()),
  forAWhile('database silent', [300, 2 * lease], ({ proxy }) => proxy.silence()),
  forAWhile('statements of the database lost', [300, 2 * lease], ({ proxy }) => proxy.silence('requests')),
  forAWhile('answers of the database lost', [300, 2 * lease], ({ proxy }) => proxy.silence('responses')),
  {
    name: 'database connections forgotten',
    async run({ proxy }) {
      return `${proxy.freeze()} connections`;
    },
  },
  {
    name: 'database connections of the lock forgotten',
    async run({ proxy }) {
      return `${proxy.freeze('active lock')} connections`;
    },
  },
  forAWhile('unreachable for other nodes', [300, 2 * lease], ({ link }) => link.cut()),
  forAWhile('slow for other nodes', [300, 1.5 * lease], ({ link }) => link.hold()),
  forAWhile('silent for other nodes', [300, 2 * lease], ({ link }) => link.silence()),
  forAWhile('requests of other nodes lost', [300, 2 * lease], ({ link }) => link.silence('requests')),
  forAWhile('answers to other nodes lost', [300, 2 * lease], ({ link }) => link.silence('responses')),
  {
    name: 'connections of other nodes forgotten',
    async run({ link }) {
      return `${link.freeze()} connections`;
    },
  },
  {
    name: 'clock set',
    async run({ process }, random) {
      const ms = between(random, -MAX_CLOCK_OFFSET_MS, MAX_CLOCK_OFFSET_MS);
      await process.moveClock(ms);
      return seconds(ms);
    },
  },
  {
    name: 'database restarted',
    async run(_place, _random, database) {
      await database.restart();
      return '';
    },
  },
  {
    name: 'standby of the database promoted',
    run: (_place, random, database) => database.failOver(random),
  },
];

/** Names of faults in `FAULTS`, separated by commas, restrict the draw. */
const drawn = process.env.FAULTS?.split(',');

/** One of the faults with these names, or of all. */
export function nextFault(random: () => number, names: readonly string[] | undefined = drawn): Fault {
  const eligible = faults.filter(({ name }) => names === undefined || names.includes(name));
  return eligible[Math.floor(random() * eligible.length)] as Fault;
}
