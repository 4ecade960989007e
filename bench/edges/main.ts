// How many lists of 50 devices per second do GraphQL and MCP answer, compared with the same list by REST?
import { readConfig } from '../../src/config.ts';
import { openStore } from '../../src/store/open.ts';
import { cpuOfTree, cpuPerOperation } from '../support/cpu.ts';
import { compare, formatLatencies, formatThousands, median } from '../support/figures.ts';
import { floorName, startHttpFloors } from '../support/floors.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment, startLoad, startService } from '../support/service.ts';
import type { ApiKind, Loop, LoopResult } from './load.ts';

const AT_LEAST = 0.5;
const CONNECTIONS = 32;

const options = readOptions();
const { short } = options;
const DEVICES = short ? 500 : 10_000;
const duration = short ? { warmMs: 300, measureMs: 700 } : { warmMs: 3_000, measureMs: 8_000 };

printMachine();
const cluster = await startCluster(options);
const deployment = makeDeployment(await cluster.database('edges'));
// Each request is charged, but no limit is reached.
deployment.env.RATE_LIMITS = 'free=1000000';
console.log(await cluster.describe());
console.log(
  `${formatThousands(DEVICES)} devices, 50 in a page; ${CONNECTIONS} connections, one request at a time on each`,
);

const { token, devices } = await populate(deployment, { devices: DEVICES, reported: true });
await markDevicesSeen();
const service = await startService(deployment, { profile: options.profile });
await service.active;
const floors = await startHttpFloors(deployment);
const load = startLoad(new URL('./load.ts', import.meta.url));

for (const api of ['GraphQL', 'MCP'] as const) {
  const cpu: Record<ApiKind, number[]> = { REST: [], GraphQL: [], MCP: [] };
  const loadCpu: Record<ApiKind, number[]> = { REST: [], GraphQL: [], MCP: [] };
  const latencies: number[] = [];
  const bytes: Partial<Record<ApiKind, number>> = {};
  const measure = async (kind: ApiKind): Promise<number> => {
    let result: LoopResult | undefined;
    const each = await cpuPerOperation(service.child, async () => {
      const loop: Loop = { api: kind, port: service.port, token, connections: CONNECTIONS, ...duration };
      const before = cpuOfTree(load.pid);
      load.send({ loop });
      result = await load.receive<LoopResult>('result');
      loadCpu[kind].push((cpuOfTree(load.pid) - before) / Math.max(1, result.total));
      return result.total;
    });
    const found = result as LoopResult;
    cpu[kind].push(each);
    bytes[kind] = found.bytes;
    if (kind === api) latencies.push(...found.latencies);
    return found.perSecond;
  };
  const measureFloor = async (): Promise<number> => {
    load.send({
      loop: { api: 'REST', port: floors.cached.port, token, connections: CONNECTIONS, ...duration } satisfies Loop,
    });
    return (await load.receive<LoopResult>('result')).perSecond;
  };
  await compare(
    {
      name: `devices by ${api}`,
      unit: 'requests/s',
      ours: () => measure(api),
      floors: [
        { name: 'REST', measure: () => measure('REST'), atLeast: AT_LEAST },
        // Shown in addition: a slower REST would improve the first ratio.
        { name: floorName('cached'), measure: measureFloor, atLeast: null },
      ],
    },
    options,
  );
  const micros = (values: readonly number[]) => `${Math.round(median(values))} µs`;
  console.log(
    `  processor time of a request: the service ${micros(cpu[api])}, the load ${micros(loadCpu[api])}; ` +
      `by REST ${micros(cpu.REST)} and ${micros(loadCpu.REST)}; ` +
      `bodies of ${formatThousands(bytes[api] ?? 0)} and ${formatThousands(bytes.REST ?? 0)} bytes`,
  );
  console.log(`  ${formatLatencies(latencies)}`);
}

await Promise.all([load, floors.cached.child, floors['verified each time'].child].map((one) => one.end()));
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
