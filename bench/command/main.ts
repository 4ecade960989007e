// How many commands a second travel REST → device → committed final word, as a part of what express, jose and zod can answer at all?
import { type Child, startChild } from '../support/child.ts';
import { cpuEach, cpuOfTree } from '../support/cpu.ts';
import { compare, latencies, median } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment, startService } from '../support/service.ts';
import type { ClosedLoop, ClosedResult, OpenLoop, OpenResult, Target } from './load.ts';

const DEVICES = 200;
const IN_FLIGHT = 64;
const AT_LEAST = 0.35;

const options = readOptions();
const { short } = options;
const loop: ClosedLoop = short ? { warmMs: 300, measureMs: 700 } : { warmMs: 3_000, measureMs: 8_000 };

printMachine();
const cluster = await startCluster(options);
const deployment = makeDeployment(await cluster.database('command'));
console.log(await cluster.describe());
console.log(`${IN_FLIGHT} commands in flight, ${DEVICES} devices, each final word brings the new state`);

const { token, devices } = await populate(deployment, { devices: DEVICES, reported: true });
const service = await startService(deployment, { profile: options.profile });
await service.active;
const { x, crv, kty } = JSON.parse(deployment.env.TOKEN_SIGNING_KEY as string);
const floor = startChild(new URL('./floor.ts', import.meta.url), {
  env: { NODE_ENV: 'production', PUBLIC_JWK: JSON.stringify({ x, crv, kty }) },
});
const floorPort = await floor.receive<number>('port');

async function load(target: Omit<Target, 'token' | 'connections'>): Promise<Child> {
  // Its own collector would otherwise take a fifth of what it uses, on processors that all share.
  const child = startChild(new URL('./load.ts', import.meta.url), { node: ['--max-semi-space-size=64'] });
  child.send({ open: { ...target, token, connections: IN_FLIGHT } });
  await child.receive('opened');
  return child;
}

const atDevices = await load({ httpPort: service.port, mqttPort: service.mqttPort, devices });
const atFloor = await load({ httpPort: floorPort, devices });

const cpu = { ours: [] as number[], floor: [] as number[], database: [] as number[], load: [] as number[] };

async function throughput(side: 'ours' | 'floor'): Promise<ClosedResult> {
  const [served, loaded] = side === 'ours' ? [service.child, atDevices] : [floor, atFloor];
  let result: ClosedResult | undefined;
  const before = { database: cluster.cpu(), load: cpuOfTree(loaded.pid) };
  const each = await cpuEach(served, async () => {
    loaded.send({ closed: loop });
    result = await loaded.receive<ClosedResult>('result');
    return result.total;
  });
  cpu[side].push(each);
  if (side === 'ours' && result !== undefined) {
    cpu.database.push((cluster.cpu() - before.database) / result.total);
    cpu.load.push((cpuOfTree(loaded.pid) - before.load) / result.total);
  }
  return result as ClosedResult;
}

const ours: number[] = [];
await compare(
  {
    name: 'commands through',
    unit: 'commands/s',
    ours: async () => {
      const result = await throughput('ours');
      ours.push(...result.latencies);
      return result.perSecond;
    },
    floor: async () => (await throughput('floor')).perSecond,
    floorName: 'express + jose + zod',
    atLeast: AT_LEAST,
  },
  options,
);
const micros = (side: keyof typeof cpu) => `${Math.round(median(cpu[side]))} µs`;
console.log(
  `processor time for a command: the service ${micros('ours')}, PostgreSQL ${micros('database')}, the load ${micros('load')}; the floor for a request ${micros('floor')}`,
);
console.log(`request to committed final word, ${IN_FLIGHT} in flight: ${latencies(ours)}`);

const rates = short ? [100] : [200, 1_000];
const ways = { command: 'REST to device', state: 'device state to WebSocket' } as const;
for (const what of ['command', 'state'] as const) {
  for (const perSecond of rates) {
    const asked: OpenLoop = { what, perSecond, milliseconds: short ? 1_000 : 15_000 };
    atDevices.send({ paced: asked });
    const result = await atDevices.receive<OpenResult>('result');
    const missing = result.sent - result.latencies.length;
    console.log(`${ways[what]} at ${perSecond}/s: ${latencies(result.latencies)}  (meant: p50 5 ms, p99 25 ms)`);
    if (!short) console.log(`  the load was late at sending by: ${latencies(result.lag)}`);
    if (missing > 0) throw new Error(`${missing} of ${result.sent} never arrived`);
  }
}

await Promise.all([atDevices.end(), atFloor.end(), floor.end()]);
await service.stop();
await cluster.stop();
deployment.remove();
