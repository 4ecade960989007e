// Does the memory of the service, of its PostgreSQL sessions and of the embedded store stay flat under a mixed load?
import { setTimeout as pause } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startChild } from '../support/child.ts';
import { printMachine } from '../support/machine.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment, startService } from '../support/service.ts';
import { measureGrowth, printGrowth, type Sample, takeSample } from './growth.ts';
import type { Target } from './load.ts';

const DEVICES = 8;
const CALLERS = 14;
const DEFAULT_MINUTES = 15;
const DEFAULT_PAUSE_MS = 8;
const SHORT_MS = 6_000;
/** Idle time until passivation, short so that a run of minutes shows the behaviour of a day. */
const IDLE_MS = 30_000;

const { values } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    minutes: { type: 'string', default: `${DEFAULT_MINUTES}` },
    store: { type: 'string' },
    pause: { type: 'string', default: `${DEFAULT_PAUSE_MS}` },
    tries: { type: 'string' },
  },
});
const { short } = values;
const minutes = Number(values.minutes);
if (!(minutes > 0)) throw new RangeError('--minutes must be a number above 0');
const pauseMs = Number(values.pause);
if (!(pauseMs > 0)) throw new RangeError('--pause must be a number of milliseconds above 0');
const stores = ['postgres', 'embedded'].filter((name) => values.store === undefined || values.store === name);
if (stores.length === 0) throw new RangeError('--store must be postgres or embedded');
const milliseconds = short ? SHORT_MS : minutes * 60_000;
const intervalMs = Math.min(5_000, milliseconds / 24);

printMachine();
for (const store of stores) {
  const flat = await soak(store === 'postgres');
  if (!short && !flat) process.exitCode = 1;
}

async function soak(onPostgres: boolean): Promise<boolean> {
  const cluster = onPostgres ? await startCluster({ short }) : null;
  const url = cluster === null ? null : await cluster.database('soak');
  const deployment = makeDeployment(url);
  const { token, devices } = await populate(deployment, { devices: DEVICES, reported: true });
  const service = await startService(deployment, { limits: { runtime: { idleMs: IDLE_MS } } });
  await service.active;
  const { port, mqttPort } = service;
  const load = startChild(new URL('./load.ts', import.meta.url));
  load.send({ start: { port, mqttPort, token, devices, callers: CALLERS, pauseMs } satisfies Target });
  await load.receive('started');

  const seconds = Math.round(milliseconds / 1000);
  console.log(`${onPostgres ? 'PostgreSQL' : 'embedded store'}: ${CALLERS} callers, ${DEVICES} devices, ${seconds} s`);
  const samples: Sample[] = [];
  let last = { requests: 0, at: performance.now() };
  for (const end = last.at + milliseconds; performance.now() < end; ) {
    await pause(intervalMs);
    load.send({ count: true });
    const now = { requests: await load.receive<number>('requests'), at: performance.now() };
    samples.push(await takeSample(port, url, ((now.requests - last.requests) * 1_000) / (now.at - last.at)));
    last = now;
  }
  load.send({ end: true });
  const statuses = await load.receive<Record<number, number>>('statuses');
  console.log(
    `  answers: ${Object.entries(statuses)
      .map(([status, count]) => `${count} × ${status}`)
      .join(', ')}`,
  );
  const flat = printGrowth(measureGrowth(samples), short);
  await load.end();
  await service.stop();
  await cluster?.stop();
  deployment.remove();
  return flat;
}
