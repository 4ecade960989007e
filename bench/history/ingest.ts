import pg from 'pg';
import { acknowledgedRate } from '../support/acknowledged-rate.ts';
import { cpuOfTree } from '../support/cpu.ts';
import { deviceState } from '../support/device-state.ts';
import { compare, median } from '../support/figures.ts';
import type { Options } from '../support/options.ts';
import { populate } from '../support/population.ts';
import type { Cluster } from '../support/postgres.ts';
import type { DeviceIdentity } from '../support/raw-device.ts';
import { makeDeployment, type RunningService, startService } from '../support/service.ts';

/*
 * The load of `ingest` on one service and one database, in turn from devices whose properties are in the history and from
 * devices whose manifest has `history: off` for each of them.
 */

const CONNECTIONS = 200;
const IN_FLIGHT = 20;
const AT_LEAST = 0.85;
/**
 * Reports are not compacted meanwhile: a compaction takes some seconds, in rounds of either side. Its processor time is
 * measured by itself.
 */
const NO_COMPACTION = { checkMs: 3_600_000 };

/** Devices that take turns with others, and what their rounds took. */
class Side {
  readonly cpu = { service: [] as number[], database: [] as number[] };
  readonly devices: readonly DeviceIdentity[];
  /** Messages of each device so far. */
  sent = 0;

  constructor(devices: readonly DeviceIdentity[]) {
    this.devices = devices;
  }

  async measure(service: RunningService, cluster: Cluster, messages: number): Promise<number> {
    const before = { service: cpuOfTree(service.child.pid), database: cluster.cpu() };
    const perSecond = await acknowledgedRate({
      port: service.mqttPort,
      devices: this.devices.map(({ deviceId, tenantId, secret }) => ({
        ...{ deviceId, tenantId, secret, firstSequence: this.sent + 1 },
      })),
      messages,
      inFlight: IN_FLIGHT,
    });
    this.sent += messages;
    const all = messages * this.devices.length;
    this.cpu.service.push((cpuOfTree(service.child.pid) - before.service) / all);
    this.cpu.database.push((cluster.cpu() - before.database) / all);
    return perSecond;
  }

  forgetCosts(): void {
    this.cpu.service.length = 0;
    this.cpu.database.length = 0;
  }
}

export async function compareIngest(cluster: Cluster, options: Options): Promise<void> {
  const messages = options.short ? 20 : 400;
  const url = await cluster.database('history-ingest');
  const deployment = makeDeployment(url);
  const { token, devices } = await populate(deployment, { devices: 2 * CONNECTIONS });
  const service = await startService(deployment, { limits: { history: NO_COMPACTION } });
  await service.active;
  const kept = new Side(devices.slice(0, CONNECTIONS));
  const left = new Side(devices.slice(CONNECTIONS));
  for (const { deviceId } of left.devices) await leaveOut(service.port, token, deviceId);
  console.log(`${CONNECTIONS} connections, ${IN_FLIGHT} in flight each, ${messages} messages each a try`);
  await compare(
    {
      name: 'state messages whose properties are in the history',
      unit: 'messages/s',
      ours: () => kept.measure(service, cluster, messages),
      floors: [
        {
          name: 'those whose properties are off',
          measure: () => left.measure(service, cluster, messages),
          atLeast: AT_LEAST,
        },
      ],
      warmUps: 1,
      afterWarmUp() {
        for (const side of [kept, left]) side.forgetCosts();
      },
    },
    options,
  );
  for (const [name, { cpu }] of [['in the history', kept] as const, ['off', left] as const]) {
    const [own, database] = [median(cpu.service).toFixed(1), median(cpu.database).toFixed(1)];
    console.log(`processor time for a message, ${name}: the service ${own} µs, PostgreSQL ${database} µs`);
  }
  await service.stop();
  await checkReports(url, kept, left);
  deployment.remove();
}

/** Gives the device a manifest that leaves all properties of the load out of the history. */
async function leaveOut(port: number, token: string, deviceId: string): Promise<void> {
  const properties = Object.fromEntries(
    Object.keys(deviceState(0, deviceId)).map((name) => [name, { history: 'off' }]),
  );
  const answer = await fetch(`http://127.0.0.1:${port}/v1/devices/${deviceId}/manifest`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ capabilities: [], properties }),
  });
  if (!answer.ok) throw new Error(`manifest: ${answer.status} ${await answer.text()}`);
}

/** Every report of the one side is stored for the history, and none of the other. */
async function checkReports(url: string, kept: Side, left: Side): Promise<void> {
  const database = new pg.Client(url);
  await database.connect();
  const reportsOf = async ({ devices }: Side): Promise<number> => {
    const { rows } = await database.query(
      'select coalesce(sum(json_array_length(body::json)), 0)::integer as count from samples where device_id = any($1)',
      [devices.map(({ deviceId }) => deviceId)],
    );
    return rows[0].count;
  };
  const [stored, others] = [await reportsOf(kept), await reportsOf(left)];
  await database.end();
  console.log(
    `reports stored for the history: ${stored} of ${kept.sent * CONNECTIONS}, and ${others} of those that are off`,
  );
  if (stored !== kept.sent * CONNECTIONS || others !== 0)
    throw new Error('the history has not the reports of one side');
}
