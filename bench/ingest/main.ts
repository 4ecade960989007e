// How many signed QoS 1 state messages per second are durable in PostgreSQL before their PUBACK, compared with bare
// aedes acknowledging the same bytes?

import { acknowledgedRate } from '../support/acknowledged-rate.ts';
import { startChild } from '../support/child.ts';
import { cpuOfTree } from '../support/cpu.ts';
import { compare, median } from '../support/figures.ts';
import { startFloor } from '../support/floors.ts';
import { printMachine } from '../support/machine.ts';
import type { LoadDevice } from '../support/mqtt-load.ts';
import { readOptions } from '../support/options.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import { makeDeployment, startService } from '../support/service.ts';

const CONNECTIONS = 200;
const IN_FLIGHT = 20;
const AT_LEAST = 0.35;
const AT_LEAST_OF_DURABLE = 3;
/** Maximum delay of the last update. */
const DELIVERY_TIMEOUT_MS = 10_000;

const options = readOptions();
const messages = options.short ? 20 : 1_000;

printMachine();
const cluster = await startCluster(options);
console.log(await cluster.describe());
console.log(
  `${CONNECTIONS} connections, ${IN_FLIGHT} in flight each, ${messages} messages each a try, one WebSocket client`,
);
const deployment = makeDeployment(await cluster.database('ingest'));
const { token, devices } = await populate(deployment, { devices: CONNECTIONS });
const service = await startService(deployment, { profile: options.profile });
await service.active;
const watcher = startChild(new URL('./watcher.ts', import.meta.url));
watcher.send({ watch: { port: service.port, token } });
await watcher.receive('watching');

const measureAcknowledged = (port: number, firstSequence: number): Promise<number> =>
  acknowledgedRate({
    port,
    devices: devices.map(
      ({ deviceId, tenantId, secret }): LoadDevice => ({ deviceId, tenantId, secret, firstSequence }),
    ),
    messages,
    inFlight: IN_FLIGHT,
  });

const broker = new URL('../support/bare-broker.ts', import.meta.url);
const cpu = { service: [] as number[], database: [] as number[] };
let sent = 0;
const measureService = async (): Promise<number> => {
  const before = { service: cpuOfTree(service.child.pid), database: cluster.cpu() };
  const perSecond = await measureAcknowledged(service.mqttPort, sent + 1);
  sent += messages;
  cpu.service.push((cpuOfTree(service.child.pid) - before.service) / (messages * CONNECTIONS));
  cpu.database.push((cluster.cpu() - before.database) / (messages * CONNECTIONS));
  return perSecond;
};

const bare = await startFloor(broker);
await compare(
  {
    name: 'state messages durable before their PUBACK',
    unit: 'messages/s',
    ours: measureService,
    floors: [{ name: 'bare aedes', measure: () => measureAcknowledged(bare.port, 1), atLeast: AT_LEAST }],
  },
  options,
);
await bare.child.end();

/**
 * The durable broker keeps each message until the client of the durable session has it; that client is connected, or
 * away.
 */
async function durableBroker(client: 'listening' | 'away') {
  const { child, port } = await startFloor(broker, { args: ['--durable'] });
  const subscriber = startChild(new URL('./subscriber.ts', import.meta.url));
  subscriber.send({ listen: { port } });
  await subscriber.receive('listening');
  if (client === 'away') await subscriber.end();
  const end = () => Promise.all([subscriber.end(), child.end()]);
  return { name: `aedes with a durable session in LevelDB, its client ${client}`, port, end };
}

const durable = [await durableBroker('listening'), await durableBroker('away')];
await compare(
  {
    name: 'the same against a broker that stores what it acknowledges',
    unit: 'messages/s',
    ours: measureService,
    floors: durable.map(({ name, port }, at) => ({
      name,
      measure: () => measureAcknowledged(port, 1),
      atLeast: at === 0 ? AT_LEAST_OF_DURABLE : null,
    })),
  },
  options,
);
await Promise.all(durable.map(({ end }) => end()));
console.log(
  `processor time for a message: the service ${median(cpu.service).toFixed(1)} µs, PostgreSQL ${median(cpu.database).toFixed(1)} µs`,
);

// No acknowledged message may be missing: each device's twin contains the number of messages sent.
let mismatches = 0;
for (const { deviceId } of devices) {
  const answer = await fetch(`http://127.0.0.1:${service.port}/v1/devices/${deviceId}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const { device } = (await answer.json()) as { device: { state: { counter: number }; state_version: number } };
  if (device.state.counter !== messages || device.state_version !== sent) mismatches += 1;
}
/** Number of updates that the WebSocket client received, and number of devices whose last state it has. */
async function readWatcher(): Promise<{ updates: number; current: number }> {
  watcher.send({ report: true });
  const { updates, counters } = await watcher.receive<{ updates: number; counters: [string, number][] }>('seen');
  return { updates, current: counters.filter(([, counter]) => counter === messages).length };
}
// An update arrives after its acknowledgement, on another connection.
let { updates, current } = await readWatcher();
for (const until = performance.now() + DELIVERY_TIMEOUT_MS; current < CONNECTIONS && performance.now() < until; ) {
  await new Promise((resolve) => setTimeout(resolve, 20));
  ({ updates, current } = await readWatcher());
}
console.log(
  `${sent * CONNECTIONS} acknowledged; ${CONNECTIONS - mismatches} of ${CONNECTIONS} twins hold exactly what was sent; ` +
    `the WebSocket client got ${updates} updates and knows the last state of ${current} devices`,
);

/** Mean of a histogram of the service. */
async function meanOf(name: string): Promise<string> {
  const text = await (await fetch(`http://127.0.0.1:${service.port}/metrics`)).text();
  const read = (suffix: string) => Number(new RegExp(`^twinkeep_${name}_${suffix} (\\S+)$`, 'm').exec(text)?.[1]);
  return (read('sum') / read('count')).toFixed(1);
}
console.log(`a batch: ${await meanOf('turn_events')} events of ${await meanOf('turn_actors')} devices on average`);

await watcher.end();
await service.stop();
await cluster.stop();
deployment.remove();
if (mismatches > 0 || current < CONNECTIONS) throw new Error('acknowledged messages are missing');
