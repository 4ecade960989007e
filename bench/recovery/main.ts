// After kill -9 with 100,000 devices and 1,000 commands in flight: how long until the service is back, and is
// everything it acknowledged still stored?
import { type Child, startChild } from '../support/child.ts';
import { checkLimit, formatThousands, median } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import { readOptions } from '../support/options.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment, type RunningService, startService } from '../support/service.ts';
import type { DurabilityReport, Ports, Recovered } from './load.ts';

const options = readOptions();
const { short, tries } = options;
const size = short
  ? { devices: 500, commanded: 50, reporting: 20, commands: 50 }
  : { devices: 100_000, commanded: 1_000, reporting: 200, commands: 1_000 };

/** Limits in milliseconds from the kill. */
const AT_MOST = {
  restart: { ready: 3_000, firstCommand: 3_500, back: 6_000 },
  takeover: { ready: 1_500, firstCommand: 2_000, back: 5_000 },
};

printMachine();
const cluster = await startCluster(options);
const deployment = makeDeployment(await cluster.database('recovery'));
console.log(await cluster.describe());

const filling = performance.now();
const { token, devices } = await populate(deployment, { devices: size.devices, reported: true });
console.log(
  `${formatThousands(size.devices)} devices stored in ${((performance.now() - filling) / 1000).toFixed(1)} s`,
);
const load = startChild(new URL('./load.ts', import.meta.url));
await sendAndWait({
  setUp: {
    token,
    commanded: devices.slice(0, size.commanded),
    reporting: devices.slice(size.commanded, size.commanded + size.reporting),
  },
});

function sendAndWait(message: object): Promise<true> {
  load.send(message);
  return load.receive<true>('done');
}

const portsOf = ({ port, mqttPort }: RunningService): Ports => ({ port, mqttPort });

async function readyAt({ port }: Ports): Promise<number> {
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/health/ready`).catch(() => null);
    if (answer?.status === 200) return Date.now();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

interface Times {
  ready: number;
  firstCommand: number;
  back: number;
}

/** Kills `active` while it is busy; `successor` is running already, or is started now. */
async function crash(
  active: RunningService,
  successor: () => Promise<RunningService>,
): Promise<[RunningService, Times]> {
  await sendAndWait({ connect: portsOf(active) });
  await sendAndWait({ startCommands: size.commands });
  const killedAt = Date.now();
  const killed: Child = active.child;
  await killed.kill();
  const next = await successor();
  load.send({ recover: portsOf(next) });
  const ready = (await readyAt(portsOf(next))) - killedAt;
  const { firstCommandAt, backAt } = await load.receive<Recovered>('recovered');
  load.send({ check: true });
  const { broken, commands, counters } = await load.receive<DurabilityReport>('report');
  for (const line of broken.slice(0, 10)) console.error(`  BROKEN: ${line}`);
  if (broken.length > 0) throw new Error(`${broken.length} acknowledged commands or reports are missing or wrong`);
  console.log(
    `  so far ${formatThousands(commands)} commands and ${formatThousands(counters)} reports were acknowledged: all kept, none twice`,
  );
  return [next, { ready, firstCommand: firstCommandAt - killedAt, back: backAt - killedAt }];
}

function judgeTimes(what: string, times: readonly Times[], atMost: Times): void {
  const connected = size.commanded + size.reporting;
  const figure = (name: string, key: keyof Times) =>
    checkLimit(`${what}: ${name}`, median(times.map((one) => one[key])), { atMost: atMost[key], unit: 'ms', short });
  figure('ready', 'ready');
  figure('first command through', 'firstCommand');
  figure(`all ${connected} connected devices back`, 'back');
}

let active = await startService(deployment);
await active.active;
const restarts: Times[] = [];
for (let n = 0; n < tries; n += 1) {
  const [next, times] = await crash(active, () => startService(deployment));
  active = next;
  restarts.push(times);
}
judgeTimes('started again', restarts, AT_MOST.restart);

const takeovers: Times[] = [];
for (let n = 0; n < tries; n += 1) {
  const standby = await startService(deployment);
  const [next, times] = await crash(active, async () => standby);
  active = next;
  takeovers.push(times);
}
judgeTimes('taken over by a standby', takeovers, AT_MOST.takeover);

await load.end();
await active.stop();
await cluster.stop();
deployment.remove();
