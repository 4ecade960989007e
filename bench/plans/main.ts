// How many steps per second do plans of ten independent steps run, compared with the same commands by REST with ten in
// flight?
import type { Child } from '../support/child.ts';
import { cpuPerOperation } from '../support/cpu.ts';
import { compare, median } from '../support/figures.ts';
import { floorName, startHttpFloors } from '../support/floors.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment, startLoad, startService } from '../support/service.ts';
import type { Loop, LoopResult } from './load.ts';

const DEVICES = 10;
const AT_LEAST = 0.9;

const options = readOptions();
const duration = options.short ? { warmMs: 300, measureMs: 700 } : { warmMs: 2_000, measureMs: 8_000 };

printMachine();
const cluster = await startCluster(options);
const deployment = makeDeployment(await cluster.database('plans'));
console.log(await cluster.describe());
console.log(
  `${DEVICES} devices, each final acknowledgement reports the new state; one plan after another, each of ${DEVICES} steps`,
);

const { token, devices } = await populate(deployment, { devices: DEVICES, reported: true });
const service = await startService(deployment, { profile: options.profile });
await service.active;
const load = startLoad(new URL('./load.ts', import.meta.url));
load.send({ open: { httpPort: service.port, mqttPort: service.mqttPort, token, devices } });
await load.receive('opened');

const floors = await startHttpFloors(deployment);

const cpu: Record<Loop['way'], number[]> = { plans: [], commands: [], requests: [] };
async function measure(way: Loop['way'], served: Child = service.child, port = service.port): Promise<number> {
  let result: LoopResult | undefined;
  const each = await cpuPerOperation(served, async () => {
    load.send({ loop: { way, port, ...duration } satisfies Loop });
    result = await load.receive<LoopResult>('result');
    return result.total;
  });
  cpu[way].push(each);
  return (result as LoopResult).perSecond;
}

await compare(
  {
    name: 'steps of plans',
    unit: 'steps/s',
    ours: () => measure('plans'),
    floors: [
      { name: 'commands by REST', measure: () => measure('commands'), atLeast: AT_LEAST },
      // Shown in addition: a slower REST would improve the first ratio.
      {
        name: floorName('cached'),
        measure: () => measure('requests', floors.cached.child, floors.cached.port),
        atLeast: null,
      },
    ],
  },
  options,
);
const micros = (way: Loop['way']) => `${Math.round(median(cpu[way]))} µs`;
console.log(`processor time of the service: ${micros('plans')} a step, ${micros('commands')} a command by REST`);

await Promise.all([load, floors.cached.child, floors['verified each time'].child].map((one) => one.end()));
await service.stop();
await cluster.stop();
deployment.remove();
