// How soon does the service serve in an empty folder, and how much memory does it keep at rest?
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import packageJson from '../../package.json' with { type: 'json' };
import { cpuOfTree } from '../support/cpu.ts';
import { checkLimit, median } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { freePort, startCluster } from '../support/postgres.ts';
import { memoryOf } from '../support/process-memory.ts';
import { type Deployment, makeDeployment } from '../support/service.ts';

/** Seconds; the service runs from a checkout, whose types are removed when they are not cached. */
const READY_AT_MOST_S = 2;
/** MiB. */
const RESIDENT_AT_MOST = { embedded: 350, postgres: 150 };
/** V8 returns the memory of the start in this time. */
const REST_MS = 62_000;
const POLL_MS = 5;
/** Those of `npm start`. */
const START_FLAGS = packageJson.scripts.start.match(/--\S+/g) ?? [];
const MIB = 2 ** 20;
const ROOT = fileURLToPath(new URL('../../', import.meta.url));

const { short, tries } = readOptions(5);
printMachine();

interface Started {
  child: ChildProcess & { pid: number };
  wallS: number;
  cpuS: number;
}

/** Starts the service as `npm start` does, and resolves when it is ready. */
async function startOnce(deployment: Deployment): Promise<Started> {
  const [port, mqttPort] = [await freePort(), await freePort()];
  const began = performance.now();
  const child = spawn(process.execPath, [...START_FLAGS, 'src/cli/main.ts', 'serve'], {
    cwd: ROOT,
    env: {
      ...{ PATH: process.env.PATH, NODE_COMPILE_CACHE: 'node_modules/.cache/twinkeep/compiled' },
      ...{ ...deployment.env, PORT: `${port}`, MQTT_PORT: `${mqttPort}` },
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  }) as Started['child'];
  while (!(await isReady(port))) {
    if (child.exitCode !== null) throw new Error(`the service ended with ${child.exitCode}`);
    await pause(POLL_MS);
  }
  return { child, wallS: (performance.now() - began) / 1_000, cpuS: cpuOfTree(child.pid) / 1e6 };
}

const isReady = (port: number): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/health/ready`).then(
    ({ ok }) => ok,
    () => false,
  );

async function stop({ child }: Started): Promise<void> {
  child.kill();
  await once(child, 'exit');
}

/**
 * Starts in new folders with a sidecar, as by default, one after another. The first one fills the cache of compiled modules
 * and does not count.
 */
async function measureStarts(): Promise<void> {
  const [walls, cpus]: [number[], number[]] = [[], []];
  for (let n = 0; n <= tries; n += 1) {
    const deployment = makeDeployment(null);
    const started = await startOnce({ ...deployment, env: { ...deployment.env, SIDECAR: 'embedded' } });
    await stop(started);
    deployment.remove();
    if (n === 0) continue;
    walls.push(started.wallS);
    cpus.push(started.cpuS);
  }
  console.log(`starts in an empty folder: ${walls.map((wall) => wall.toFixed(2)).join(', ')} s`);
  checkLimit('  median until it is ready', median(walls), { atMost: READY_AT_MOST_S, unit: 's', short });
  checkLimit('  processor time until then', median(cpus), { unit: 's', short });
}

async function measureRest(store: keyof typeof RESIDENT_AT_MOST, deployment: Deployment): Promise<void> {
  const started = await startOnce(deployment);
  if (!short) await pause(REST_MS);
  const { resident, proportional } = memoryOf(started.child.pid);
  await stop(started);
  console.log(`${store}: proportional ${(proportional / MIB).toFixed(0)} MiB`);
  const name = `  resident ${short ? 'after the start' : 'at rest'}`;
  checkLimit(name, resident / MIB, { atMost: RESIDENT_AT_MOST[store], unit: 'MiB', short });
}

await measureStarts();
const embedded = makeDeployment(null);
await measureRest('embedded', embedded);
embedded.remove();
const cluster = await startCluster({ short });
const onPostgres = makeDeployment(await cluster.database('start'));
await measureRest('postgres', onPostgres);
onPostgres.remove();
await cluster.stop();
