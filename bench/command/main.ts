// How many commands per second pass from REST to the device and back to the committed final acknowledgement, compared
// with what express, jose and zod can answer?
import type { Child } from '../support/child.ts';
import { cpuOfTree, cpuPerOperation } from '../support/cpu.ts';
import { checkLimit, compare, formatLatencies, median, percentile } from '../support/figures.ts';
import {
  type FloorProcess,
  floorName,
  startHttpFloors,
  TOKEN_VERIFICATIONS,
  type TokenVerification,
} from '../support/floors.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment, startLoad, startService } from '../support/service.ts';
import type { ClosedLoop, ClosedResult, OpenLoop, OpenResult, Target } from './load.ts';

const DEVICES = 200;
/** With 256 there is work for some requests while others wait for their commit. */
const IN_FLIGHT = [64, 256];
/** Minimum ratio to the floor that caches verified tokens, as the service does. */
const AT_LEAST = 0.3;
/** Latency limits of the paced runs, in milliseconds. */
const AT_MOST = { p50: 5, p99: 25 };

const options = readOptions();
const { short } = options;
const duration = short ? { warmMs: 300, measureMs: 700 } : { warmMs: 3_000, measureMs: 8_000 };

printMachine();
const cluster = await startCluster(options);
const deployment = makeDeployment(await cluster.database('command'));
console.log(await cluster.describe());
console.log(`${DEVICES} devices, each final acknowledgement reports the new state`);

const { token, devices } = await populate(deployment, { devices: DEVICES, reported: true });
const service = await startService(deployment, { profile: options.profile });
await service.active;
const floors = await startHttpFloors(deployment);

async function load(target: Omit<Target, 'token' | 'connections'>): Promise<Child> {
  const child = startLoad(new URL('./load.ts', import.meta.url));
  child.send({ open: { ...target, token, connections: Math.max(...IN_FLIGHT) } });
  await child.receive('opened');
  return child;
}

const atDevices = await load({ httpPort: service.port, mqttPort: service.mqttPort, devices });
const atFloor = {
  cached: await load({ httpPort: floors.cached.port, devices }),
  'verified each time': await load({ httpPort: floors['verified each time'].port, devices }),
};

const cpu = { service: [] as number[], database: [] as number[], load: [] as number[] };
const floorCpu: Record<TokenVerification, number[]> = { cached: [], 'verified each time': [] };

/** One closed loop, with the processor time per request of `served`, in µs. */
async function loopAgainst(
  served: Child,
  loaded: Child,
  inFlight: number,
): Promise<{ result: ClosedResult; each: number }> {
  let result: ClosedResult | undefined;
  const each = await cpuPerOperation(served, async () => {
    loaded.send({ closed: { inFlight, ...duration } satisfies ClosedLoop });
    result = await loaded.receive<ClosedResult>('result');
    return result.total;
  });
  return { result: result as ClosedResult, each };
}

const ours: number[] = [];
async function measureOurs(inFlight: number): Promise<number> {
  const before = { database: cluster.cpu(), load: cpuOfTree(atDevices.pid) };
  const { result, each } = await loopAgainst(service.child, atDevices, inFlight);
  cpu.service.push(each);
  cpu.database.push((cluster.cpu() - before.database) / result.total);
  cpu.load.push((cpuOfTree(atDevices.pid) - before.load) / result.total);
  ours.push(...result.latencies);
  return result.perSecond;
}

async function measureFloor(proofs: TokenVerification, { child }: FloorProcess, inFlight: number): Promise<number> {
  const { result, each } = await loopAgainst(child, atFloor[proofs], inFlight);
  floorCpu[proofs].push(each);
  return result.perSecond;
}

const micros = (values: readonly number[]) => `${Math.round(median(values))} µs`;
for (const inFlight of IN_FLIGHT) {
  await compare(
    {
      name: `commands through, ${inFlight} in flight`,
      unit: 'commands/s',
      ours: () => measureOurs(inFlight),
      floors: TOKEN_VERIFICATIONS.map((proofs) => ({
        name: floorName(proofs),
        measure: () => measureFloor(proofs, floors[proofs], inFlight),
        atLeast: proofs === 'cached' ? AT_LEAST : null,
      })),
      warmUps: 2,
      afterWarmUp: () => {
        for (const values of [ours, ...Object.values(cpu), ...Object.values(floorCpu)]) values.length = 0;
      },
    },
    options,
  );
  console.log(
    `processor time for a command: the service ${micros(cpu.service)}, PostgreSQL ${micros(cpu.database)}, the load ${micros(cpu.load)}; ` +
      `for a request of the floor: ${TOKEN_VERIFICATIONS.map((proofs) => `${micros(floorCpu[proofs])} with tokens ${proofs}`).join(', ')}`,
  );
  console.log(`request to committed final word, ${inFlight} in flight: ${formatLatencies(ours)}`);
}

const rates = short ? [100] : [200, 1_000];
async function paced(options: OpenLoop): Promise<OpenResult> {
  atDevices.send({ paced: options });
  return atDevices.receive<OpenResult>('result');
}
/** Not measured: for some seconds after the closed loop the disk still writes its data. */
const SETTLE_MS = 5_000;
const ways = { command: 'REST to device', state: 'device state to WebSocket' } as const;
if (!short) await paced({ what: 'command', perSecond: 200, milliseconds: SETTLE_MS });
for (const what of ['command', 'state'] as const) {
  for (const perSecond of rates) {
    const result = await paced({ what, perSecond, milliseconds: short ? 1_000 : 15_000 });
    const missing = result.sent - result.latencies.length;
    console.log(`${ways[what]} at ${perSecond}/s: ${formatLatencies(result.latencies)}`);
    if (missing > 0) throw new Error(`${missing} of ${result.sent} never arrived`);
    checkLimit('  p50', percentile(result.latencies, 50), { atMost: AT_MOST.p50, unit: 'ms', short });
    checkLimit('  p99', percentile(result.latencies, 99), { atMost: AT_MOST.p99, unit: 'ms', short });
    if (!short) console.log(`  the load was late at sending by: ${formatLatencies(result.lag)}`);
  }
}

await Promise.all(
  [atDevices, ...TOKEN_VERIFICATIONS.flatMap((proofs) => [atFloor[proofs], floors[proofs].child])].map((one) =>
    one.end(),
  ),
);
await service.stop();
await cluster.stop();
deployment.remove();
