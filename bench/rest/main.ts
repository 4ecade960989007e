// How many requests a second does REST answer, as a part of what express, jose and zod can answer with nothing behind them?
import { readConfig } from '../../src/config.ts';
import { openStore } from '../../src/store/open.ts';
import { startChild } from '../support/child.ts';
import { cpuEach } from '../support/cpu.ts';
import { compare, latencies, median, thousands } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment, startService } from '../support/service.ts';
import { type Ask, asks, type Loop, type LoopResult } from './load.ts';

/** Null: nothing was asked of it, but who reads the first figure should know it. */
const AT_LEAST: Readonly<Record<Ask, number | null>> = {
  'GET /devices': 0.5,
  'GET /devices, everybody another page': null,
  'POST …/command': 0.35,
};
const COMMANDED = 200;
const CONNECTIONS = 32;

const options = readOptions();
const { short } = options;
const DEVICES = short ? 500 : 10_000;
const duration = short ? { warmMs: 300, measureMs: 700 } : { warmMs: 3_000, measureMs: 8_000 };

printMachine();
const cluster = await startCluster(options);
const deployment = makeDeployment(await cluster.database('rest'));
// The gate charges each request, but nobody is stopped.
deployment.env.RATE_LIMITS = 'free=1000000';
console.log(await cluster.describe());
console.log(`${thousands(DEVICES)} devices, 50 in a page; ${CONNECTIONS} connections, one request at a time on each`);

const { token, devices } = await populate(deployment, { devices: DEVICES, reported: true });
await wereSeen();
const service = await startService(deployment, { profile: options.profile });
await service.active;
const { x, crv, kty } = JSON.parse(deployment.env.TOKEN_SIGNING_KEY as string);
const floor = startChild(new URL('./floor.ts', import.meta.url), {
  env: { NODE_ENV: 'production', PUBLIC_JWK: JSON.stringify({ x, crv, kty }) },
});
const floorPort = await floor.receive<number>('port');
const load = startChild(new URL('./load.ts', import.meta.url));
const commanded = devices.slice(0, COMMANDED).map(({ deviceId }) => deviceId);

for (const ask of asks) {
  const cpu = { ours: [] as number[], floor: [] as number[] };
  const heard = { ours: [] as number[], floor: [] as number[] };
  const bytes = { ours: 0, floor: 0 };
  const measure = async (side: keyof typeof cpu): Promise<number> => {
    const port = side === 'ours' ? service.port : floorPort;
    let result: LoopResult | undefined;
    const each = await cpuEach(side === 'ours' ? service.child : floor, async () => {
      load.send({
        loop: { ask, port, token, devices: commanded, connections: CONNECTIONS, ...duration } satisfies Loop,
      });
      result = await load.receive<LoopResult>('result');
      return result.total;
    });
    cpu[side].push(each);
    heard[side].push(...(result as LoopResult).latencies);
    bytes[side] = (result as LoopResult).bytes;
    return (result as LoopResult).perSecond;
  };
  await compare(
    {
      name: ask,
      unit: 'requests/s',
      ours: () => measure('ours'),
      floor: () => measure('floor'),
      floorName: 'express + jose + zod',
      atLeast: AT_LEAST[ask],
    },
    options,
  );
  const [ours, theirs] = [median(cpu.ours), median(cpu.floor)];
  console.log(
    `  processor time: ${Math.round(ours)} µs a request, floor ${Math.round(theirs)} µs: ${(theirs / ours).toFixed(2)}; ` +
      `bodies of ${thousands(bytes.ours)} and ${thousands(bytes.floor)} bytes`,
  );
  console.log(`  ${latencies(heard.ours)}`);
}

await Promise.all([load.end(), floor.end()]);
await service.stop();
await cluster.stop();
deployment.remove();

/** Every device was heard of lately, as in a real list. */
async function wereSeen(): Promise<void> {
  const store = await openStore(readConfig(deployment.env));
  for (let from = 0; from < devices.length; from += 2_000) {
    await store.devices.flushPresence(
      devices.slice(from, from + 2_000).map(({ deviceId }) => ({ deviceId, lastSeen: Date.now() })),
    );
  }
  await store.close();
}
