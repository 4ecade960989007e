// How many updates per second reach all of 1,000 WebSocket clients of one tenant, as a multiple of a loop of `ws.send`?
import { type Child, startChild } from '../support/child.ts';
import { checkLimit, compare, formatLatencies, formatThousands, percentile } from '../support/figures.ts';
import { startFloor } from '../support/floors.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import type { ExpectedFrames, MissedFrames } from './clients.ts';
import type { Run, RunResult, ServerKind } from './server.ts';

const CLIENTS = 1_000;
/** Minimum ratio to a loop that serialises each update per client, and to one that serialises it once. */
const AT_LEAST: Record<Exclude<ServerKind, 'ours'>, number> = { 'text for each client': 15, 'text once': 2 };
/** Limit of the delay from an update to its arrival at a client, at half of the highest rate, in milliseconds. */
const AT_MOST_P99 = 100;
/** All clients must have all updates this long after the last one was due. */
const GRACE_MS = 1_000;

const options = readOptions();
const { short } = options;
const clientCount = short ? 100 : CLIENTS;
const milliseconds = short ? 300 : 2_000;
const FIRST_RATE = short ? 50 : 100;
/** Relative precision at which the search ends. */
const PRECISION = short ? 0.5 : 0.05;

interface Side {
  server: Child;
  clients: Child;
}

async function open(kind: ServerKind): Promise<Side> {
  // Same options for the service's edge and for the loops.
  const { child: server, port } = await startFloor(new URL('./server.ts', import.meta.url), { args: [kind] });
  const clients = startChild(new URL('./clients.ts', import.meta.url));
  clients.send({ open: { port, clients: clientCount } });
  await clients.receive('opened');
  return { server, clients };
}

/** True if no client misses an update at this rate. */
async function sustainsRate({ server, clients }: Side, perSecond: number): Promise<boolean> {
  const run: Run = { perSecond, milliseconds, graceMs: GRACE_MS };
  server.send({ run });
  const { sent, until } = await server.receive<RunResult>('ran');
  if (until !== null) {
    const expected: ExpectedFrames = { frames: sent, until };
    clients.send({ expect: expected });
  }
  const missed = until === null ? null : await clients.receive<MissedFrames>('missed');
  clients.send({ settle: true });
  await clients.receive('settled');
  return missed?.clients === 0 && !missed.late;
}

/** The highest sustained rate, found by doubling and then bisecting. A rate fails only if it fails twice. */
async function findHighestRate(side: Side): Promise<number> {
  const works = async (rate: number) => (await sustainsRate(side, rate)) || sustainsRate(side, rate);
  let low = 0;
  let high = FIRST_RATE;
  while (await works(high)) {
    low = high;
    high *= 2;
    if (short && low >= 200) return low;
  }
  while (high - low > Math.max(1, low * PRECISION)) {
    const middle = Math.round((low + high) / 2);
    if (await works(middle)) low = middle;
    else high = middle;
  }
  return low;
}

const delays: number[] = [];

/** Each measurement has its own processes, so that none of another side is idle next to it. */
async function measureDeliveries(kind: ServerKind): Promise<number> {
  const side = await open(kind);
  const rate = await findHighestRate(side);
  console.log(`    ${kind}: ${formatThousands(rate)} updates/s`);
  const perSecond = Math.max(1, Math.round(rate / 2));
  side.clients.send({ delays: true });
  await side.clients.receive('delays'); // Discards the delays of the search.
  await sustainsRate(side, perSecond);
  side.clients.send({ delays: true });
  const found = await side.clients.receive<number[]>('delays');
  console.log(`      at ${formatThousands(perSecond)} updates/s one client has them after: ${formatLatencies(found)}`);
  if (kind === 'ours') delays.push(...found);
  await Promise.all([side.clients.end(), side.server.end()]);
  return rate * clientCount;
}

printMachine();
console.log(
  `${clientCount} clients in another process, 50 devices with 20 keys each, runs of ${milliseconds / 1000} s; ` +
    `all is delivered ${GRACE_MS / 1000} s after the last update was due`,
);
await compare(
  {
    name: 'deliveries',
    unit: 'deliveries/s',
    ours: () => measureDeliveries('ours'),
    floors: (['text for each client', 'text once'] as const).map((kind) => ({
      name: `a plain loop, ${kind}`,
      measure: () => measureDeliveries(kind),
      atLeast: AT_LEAST[kind],
    })),
  },
  options,
);
checkLimit('update to client at half of that rate, p99', percentile(delays, 99), {
  atMost: AT_MOST_P99,
  unit: 'ms',
  short,
});
