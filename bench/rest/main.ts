// How many requests per second does REST answer, compared with express, jose and zod with no logic behind them?
import { readConfig } from '../../src/config.ts';
import { openStore } from '../../src/store/open.ts';
import type { Child } from '../support/child.ts';
import { cpuOfTree, cpuPerOperation } from '../support/cpu.ts';
import { compare, formatLatencies, formatThousands, median, reportNotMeasured } from '../support/figures.ts';
import {
  floorName,
  startHttpFloors,
  startNodeRed,
  TOKEN_VERIFICATIONS,
  type TokenVerification,
} from '../support/floors.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment, startLoad, startService } from '../support/service.ts';
import type { Loop, LoopResult, RequestKind } from './load.ts';

/**
 * `atLeast`: minimum ratio to the floor that caches verified tokens, as the service does. Requests for the same page
 * share reads; those for different pages do not.
 */
const MEASUREMENTS: readonly { kind: RequestKind; connections: number; atLeast: number }[] = [
  { kind: 'GET /devices', connections: 32, atLeast: 0.5 },
  { kind: 'GET /devices, everybody another page', connections: 32, atLeast: 0.35 },
  { kind: 'POST …/command', connections: 32, atLeast: 0.5 },
  // Enough connections to have work for some while others wait for their commit.
  { kind: 'POST …/command', connections: 256, atLeast: 0.5 },
];
/** Minimum ratio to Node-RED, which neither authenticates nor stores. */
const AT_LEAST_OF_NODE_RED = 1;
const COMMANDED = 200;

const options = readOptions();
const { short } = options;
const DEVICES = short ? 500 : 10_000;
const duration = short ? { warmMs: 300, measureMs: 700 } : { warmMs: 3_000, measureMs: 8_000 };

printMachine();
const cluster = await startCluster(options);
const deployment = makeDeployment(await cluster.database('rest'));
// Each request is charged, but no limit is reached.
deployment.env.RATE_LIMITS = 'free=1000000';
console.log(await cluster.describe());
console.log(`${formatThousands(DEVICES)} devices, 50 in a page; one request at a time on each connection`);

const { token, devices } = await populate(deployment, { devices: DEVICES, reported: true });
await markDevicesSeen();
const service = await startService(deployment, { profile: options.profile });
await service.active;
const floors = await startHttpFloors(deployment);
const load = startLoad(new URL('./load.ts', import.meta.url));
const commanded = devices.slice(0, COMMANDED).map(({ deviceId }) => deviceId);

// Commands answered by a Node-RED flow; `NODE_RED` is the folder of its installation.
const nodeRed = process.env.NODE_RED ? await startNodeRed() : null;

type Side = 'ours' | TokenVerification | 'Node-RED';
const sides: Partial<Record<Side, { child: Child; port: number }>> = {
  ...{ ours: service, ...floors },
  ...(nodeRed && { 'Node-RED': nodeRed }),
};
const record = <T>(make: () => T): Record<Side, T> => ({
  ...{ ours: make(), cached: make(), 'verified each time': make(), 'Node-RED': make() },
});

for (const { kind, connections, atLeast } of MEASUREMENTS) {
  const cpu = record(() => [] as number[]);
  const loadCpu = record(() => [] as number[]);
  const times = record(() => [] as number[]);
  const bytes = record(() => 0);
  const measure = async (side: Side): Promise<number> => {
    const { child, port } = sides[side] as { child: Child; port: number };
    let result: LoopResult | undefined;
    const each = await cpuPerOperation(child, async () => {
      const before = cpuOfTree(load.pid);
      load.send({
        loop: { kind, port, token, devices: commanded, connections, ...duration } satisfies Loop,
      });
      result = await load.receive<LoopResult>('result');
      loadCpu[side].push((cpuOfTree(load.pid) - before) / Math.max(1, result.total));
      return result.total;
    });
    const { latencies: found, bytes: size, perSecond } = result as LoopResult;
    cpu[side].push(each);
    times[side].push(...found);
    bytes[side] = size;
    return perSecond;
  };
  await compare(
    {
      name: `${kind}, ${connections} connections`,
      unit: 'requests/s',
      ours: () => measure('ours'),
      floors: [
        ...TOKEN_VERIFICATIONS.map((proofs) => ({
          name: floorName(proofs),
          measure: () => measure(proofs),
          atLeast: proofs === 'cached' ? atLeast : null,
        })),
        ...(nodeRed !== null && kind === 'POST …/command'
          ? [{ name: 'Node-RED', measure: () => measure('Node-RED'), atLeast: AT_LEAST_OF_NODE_RED }]
          : []),
      ],
      warmUps: 1,
      afterWarmUp: () => {
        for (const all of [cpu, loadCpu, times]) for (const values of Object.values(all)) values.length = 0;
      },
    },
    options,
  );
  if (nodeRed === null && kind === 'POST …/command')
    reportNotMeasured('  part of Node-RED', 'NODE_RED is not set', { atLeast: AT_LEAST_OF_NODE_RED, short });
  const micros = (values: readonly number[]) => `${Math.round(median(values))} µs`;
  console.log(
    `  processor time of a request: the service ${micros(cpu.ours)}, the load ${micros(loadCpu.ours)}; ` +
      `the floor ${TOKEN_VERIFICATIONS.map((proofs) => `${micros(cpu[proofs])} with tokens ${proofs} (its load ${micros(loadCpu[proofs])})`).join(', ')}; ` +
      `bodies of ${formatThousands(bytes.ours)} and ${formatThousands(bytes.cached)} bytes`,
  );
  console.log(`  ${formatLatencies(times.ours)}`);
}

await Promise.all(
  [load, nodeRed?.child, ...TOKEN_VERIFICATIONS.map((proofs) => floors[proofs].child)].map((one) => one?.end()),
);
await service.stop();
await cluster.stop();
deployment.remove();

/** Gives every device a recent last-seen time, as in a real list. */
async function markDevicesSeen(): Promise<void> {
  const store = await openStore(readConfig(deployment.env));
  for (let from = 0; from < devices.length; from += 2_000) {
    await store.devices.flushPresence(
      devices.slice(from, from + 2_000).map(({ deviceId }) => ({ deviceId, lastSeen: Date.now() })),
    );
  }
  await store.close();
}
