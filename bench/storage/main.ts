// How many bytes does PostgreSQL write for a device, a message and a command, and how many do they keep on its disk?

import pg from 'pg';
import { readConfig } from '../../src/config.ts';
import { openStore } from '../../src/store/open.ts';
import type { ClosedLoop, ClosedResult } from '../command/load.ts';
import { startChild } from '../support/child.ts';
import { cpuOfTree } from '../support/cpu.ts';
import { formatThousands } from '../support/figures.ts';
import { printMachine } from '../support/machine.ts';
import type { Load, LoadResult } from '../support/mqtt-load.ts';
import { readOptions } from '../support/options.ts';
import { populate } from '../support/population.ts';
import { startCluster } from '../support/postgres.ts';
import type { DeviceIdentity } from '../support/raw-device.ts';
import { makeDeployment, startLoad, startService } from '../support/service.ts';

/*
 * Two values of each: in the first round after a checkpoint, in which PostgreSQL also logs each page that it changes for
 * the first time (`full_page_writes`), and in the next round. A deployment is between them: nearer to the second, the
 * longer it takes from one checkpoint to the next.
 */

const options = readOptions();
const scale = options.short
  ? { devices: 400, connected: 100, messages: 5, commandsMs: 500 }
  : { devices: 20_000, connected: 2_000, messages: 50, commandsMs: 10_000 };

printMachine();
const cluster = await startCluster(options);
console.log(await cluster.describe());
const url = await cluster.database('storage');
const database = new pg.Client(url);
await database.connect();

const read = async (sql: string): Promise<number> => Number((await database.query(sql)).rows[0].value);
const logPosition = () => read("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as value");
/** Tables with their indexes, as large as they are after a vacuum that gives no space back. */
async function diskBytes(): Promise<number> {
  await database.query('vacuum');
  // Those of the system have lower numbers.
  return read("select sum(pg_total_relation_size(oid)) as value from pg_class where relkind = 'r' and oid > 16383");
}

const journalBytes = () => read("select pg_total_relation_size('journal') as value");

/** Bytes of log that are written during the work. */
async function logBytes(work: () => Promise<unknown>): Promise<number> {
  const before = await logPosition();
  await work();
  return (await logPosition()) - before;
}

const bytes = (value: number) => `${formatThousands(value)} B`;

const deployment = makeDeployment(url);
await openStore(readConfig(deployment.env)).then((store) => store.close());
const empty = await diskBytes();
let devices: DeviceIdentity[] = [];
let token = '';
const stored = await logBytes(async () => {
  ({ devices, token } = await populate(deployment, { devices: scale.devices, reported: true }));
});
const occupied = await diskBytes();
console.log(
  `a device, registered and with one report of 20 keys: ${bytes((occupied - empty) / scale.devices)} on disk, ${bytes(stored / scale.devices)} of log`,
);

const service = await startService(deployment);
await service.active;
const connected = devices.slice(0, scale.connected);

/** Messages of all connected devices; `inFlight` of each device at a time. */
async function sendMessages(inFlight: number, messages: number): Promise<number> {
  const load: Load = {
    port: service.mqttPort,
    devices: connected.map(({ deviceId, tenantId, secret, sequence }) => ({
      ...{ deviceId, tenantId, secret },
      firstSequence: sequence,
    })),
    ...{ messages, inFlight },
  };
  for (const device of connected) device.sequence += messages;
  const child = startChild(new URL('../support/mqtt-load.ts', import.meta.url));
  child.send({ load });
  await child.receive('ready');
  const before = { service: cpuOfTree(service.child.pid), database: cluster.cpu() };
  child.send({ go: true });
  const { acknowledged } = await child.receive<LoadResult>('result');
  cpu.service = (cpuOfTree(service.child.pid) - before.service) / acknowledged;
  cpu.database = (cluster.cpu() - before.database) / acknowledged;
  await child.end();
  return acknowledged;
}

/** Processor time for an operation of the last load, in microseconds. */
const cpu = { service: 0, database: 0 };
const shownCpu = () => `the service ${cpu.service.toFixed(1)} µs, PostgreSQL ${cpu.database.toFixed(1)} µs`;

/** Two rounds of `work`, which returns the number of its operations. */
async function measure(name: string, work: () => Promise<number>): Promise<void> {
  await database.query('checkpoint');
  const rounds: string[] = [];
  for (let n = 0; n < 2; n += 1) {
    let count = 0;
    const log = await logBytes(async () => {
      count = await work();
    });
    rounds.push(bytes(log / count));
  }
  console.log(`${name}: ${rounds[1]} of log, after a checkpoint ${rounds[0]}; processor time ${shownCpu()}`);
}

await measure('a state message, one of a device at a time', () => sendMessages(1, scale.messages));
await measure('a state message, 20 of a device at a time', () => sendMessages(20, 4 * scale.messages));

const load = startLoad(new URL('../command/load.ts', import.meta.url));
const commanded = devices.slice(0, 200);
load.send({
  open: { httpPort: service.port, mqttPort: service.mqttPort, devices: commanded, token, connections: 64 },
});
await load.receive('opened');
const [beforeCommands, beforeJournal] = [await diskBytes(), await journalBytes()];
let commands = 0;
await measure('a command, to the last report of its device', async () => {
  const before = { service: cpuOfTree(service.child.pid), database: cluster.cpu() };
  load.send({ closed: { inFlight: 64, warmMs: 0, measureMs: scale.commandsMs } satisfies ClosedLoop });
  const { total } = await load.receive<ClosedResult>('result');
  cpu.service = (cpuOfTree(service.child.pid) - before.service) / total;
  cpu.database = (cluster.cpu() - before.database) / total;
  commands += total;
  return total;
});
const [all, journal] = [(await diskBytes()) - beforeCommands, (await journalBytes()) - beforeJournal];
console.log(
  `a finished command: ${bytes((all - journal) / commands)} on disk, and ${bytes(journal / commands)} of journal`,
);

await load.end();
await service.stop();
await database.end();
await cluster.stop();
deployment.remove();
