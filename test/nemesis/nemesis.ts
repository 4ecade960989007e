import { setTimeout as pause } from 'node:timers/promises';
import { inject } from 'vitest';
import { shardOf } from '../../src/domain/shards.ts';
import { type Balancer, startBalancer } from '../support/balancer.ts';
import { eventually } from '../support/clock.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { type ApiClient, makeApiClient } from '../support/service.ts';
import { freePorts, newOwner, type Ports, type ServiceProcess, startServiceProcess } from '../support/spawn-service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { quickLock, resumeProcess, suspendProcess } from '../support/two-processes.ts';
import { Workload } from '../support/workload.ts';
import { sql, watchWrites, writesByEpoch } from '../support/write-oracle.ts';

/** The ports of a node, and a proxy between it and the database. */
interface Place {
  ports: Ports;
  proxy: TcpProxy;
  process: ServiceProcess;
}

/** A fault of one node; it is healed when it resolves. */
interface Fault {
  name: string;
  run(place: Place, random: () => number): Promise<string>;
}

const between = (random: () => number, least: number, most: number): number => least + random() * (most - least);
const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

const forAWhile = (name: string, range: readonly [number, number], begin: (place: Place) => void): Fault => ({
  name,
  async run(place, random) {
    const ms = between(random, ...range);
    begin(place);
    await pause(ms);
    place.proxy.restore();
    resumeProcess(place.process.pid);
    return seconds(ms);
  },
});

const { lease } = quickLock;

/** Every fault leaves the other nodes alone. Times below the lease, around it and above it. */
export const faults: readonly Fault[] = [
  {
    name: 'kill',
    async run({ process }) {
      await process.kill('SIGKILL');
      return '';
    },
  },
  {
    name: 'stop',
    async run({ process }) {
      const { code } = await process.kill('SIGTERM');
      return `ended with ${code}`;
    },
  },
  forAWhile('pause below the lease', [500, lease / 2], ({ process }) => suspendProcess(process.pid)),
  forAWhile('pause above the lease', [lease, 2.5 * lease], ({ process }) => suspendProcess(process.pid)),
  forAWhile('database unreachable', [300, 3_000], ({ proxy }) => proxy.cut()),
  forAWhile('database slow', [300, 1.5 * lease], ({ proxy }) => proxy.hold()),
  forAWhile('database silent', [300, 2 * lease], ({ proxy }) => proxy.silence()),
  {
    name: 'database connections forgotten',
    async run({ proxy }) {
      return `${proxy.freeze()} connections`;
    },
  },
  {
    name: 'database connections of the lock forgotten',
    async run({ proxy }) {
      return `${proxy.freeze('active lock')} connections`;
    },
  },
];

/** Three nodes on one database under load, with faults of one node at a time. */
export class Nemesis {
  readonly log: string[] = [];
  readonly #deployment: Deployment;
  readonly #balancers: { http: Balancer; mqtt: Balancer };
  readonly #places: Place[] = [];
  readonly #loads: Workload[] = [];
  readonly #reads: ReadCheck[] = [];
  #closing = false;

  private constructor(deployment: Deployment, balancers: { http: Balancer; mqtt: Balancer }) {
    this.#deployment = deployment;
    this.#balancers = balancers;
  }

  static async start({ nodes, tenants }: { nodes: number; tenants: number }): Promise<Nemesis> {
    const deployment = (await makePostgresDeployment()) as Deployment;
    const balancers = { http: await startBalancer([]), mqtt: await startBalancer([]) };
    const nemesis = new Nemesis(deployment, balancers);
    for (let n = 0; n < nodes; n++) await nemesis.#addPlace();
    await watchWrites(deployment.databaseUrl ?? '');
    for (let n = 0; n < tenants; n++) await nemesis.#addTenant(n);
    return nemesis;
  }

  /** One fault of one node, then the time until everything makes progress again. */
  async round(random: () => number): Promise<void> {
    const fault = faults[Math.floor(random() * faults.length)] as Fault;
    const place = this.#places[Math.floor(random() * this.#places.length)] as Place;
    const what = await fault.run(place, random);
    const from = performance.now();
    for (const load of this.#loads) await load.waitForProgress(1);
    this.log.push(`${fault.name} ${what}: progress after ${seconds(performance.now() - from)}`);
    const violations = [...(await this.#violations()), ...this.#reads.flatMap((check) => check.violations)];
    if (violations.length > 0) throw new Error(`${violations.join('; ')} after:\n${this.log.join('\n')}`);
  }

  /** Compares everything that was acknowledged with the final state. */
  async verify(): Promise<void> {
    await this.#whenSettled();
    for (const check of this.#reads) await check.stop();
    for (const load of this.#loads) await load.verify();
  }

  async close(): Promise<void> {
    this.#closing = true;
    for (const check of this.#reads) await check.stop();
    await Promise.all(this.#loads.map((load) => load.close()));
    for (const { process } of this.#places) resumeProcess(process.pid);
    await Promise.all(this.#places.map(({ process }) => process.kill('SIGKILL')));
    await Promise.all([...this.#places.map(({ proxy }) => proxy.close()), ...this.#closeBalancers()]);
    await this.#deployment.remove();
  }

  #closeBalancers(): Promise<void>[] {
    return [this.#balancers.http.close(), this.#balancers.mqtt.close()];
  }

  async #addPlace(): Promise<void> {
    const proxy = await startTcpProxy(inject('postgresUrl') ?? '');
    const place: Place = { ports: await freePorts(), proxy, process: null as never };
    this.#start(place);
    await place.process.active;
    this.#places.push(place);
    this.#balancers.http.targets.push(Number(place.ports.PORT));
    this.#balancers.mqtt.targets.push(Number(place.ports.MQTT_PORT));
  }

  /** Starts the node of a place, and again when it ends, as a supervisor would. */
  #start(place: Place): void {
    const { http, mqtt } = this.#balancers;
    place.process = startServiceProcess(this.#deployment, {
      ...place.ports,
      NODE_ADDRESS: '127.0.0.1:0',
      DATABASE_URL: place.proxy.proxiedUrl(this.#deployment.databaseUrl ?? ''),
      PUBLIC_URL: `http://127.0.0.1:${http.port}`,
      MQTT_PUBLIC_URL: `mqtt://127.0.0.1:${mqtt.port}`,
      LOCK_TIMING: JSON.stringify(quickLock),
    });
    void place.process.exited.then(() => {
      if (!this.#closing) this.#start(place);
    });
  }

  /** Every node is active and owns shards. */
  async #whenSettled(): Promise<void> {
    await eventually(async () => {
      const [row] = await sql<{ owners: number }>(
        this.#deployment.databaseUrl ?? '',
        'select count(distinct owner)::integer as owners from shards join nodes on id = owner where nodes.epoch = 1',
      );
      return row?.owners === this.#places.length;
    });
  }

  async #addTenant(n: number): Promise<void> {
    const api = (token: string): ApiClient => makeApiClient(`http://127.0.0.1:${this.#balancers.http.port}`, token);
    const owner = await newOwner(this.#deployment, (token) => withRepeatedReads(api(token)), `owner-${n}`);
    const load = new Workload(owner);
    const [counter] = [await load.addDevice(), await load.addDevice({ critical: n % 2 === 0 })];
    this.#loads.push(load);
    this.#reads.push(new ReadCheck(owner, counter.id));
    this.log.push(`tenant ${n} in shard ${shardOf(owner.tenantId)}`);
  }

  async #violations(): Promise<string[]> {
    const url = this.#deployment.databaseUrl ?? '';
    const writes = await writesByEpoch(url);
    const owners = await sql<{ owners: number }>(url, 'select count(distinct owner)::integer as owners from shards');
    return [
      ...writes.flatMap(({ epoch, violations }) => violations.map((table) => `write to ${table} in epoch ${epoch}`)),
      ...(owners[0]?.owners === 0 ? ['no shard has an owner'] : []),
    ];
  }
}

/** A client that reads again if the connection breaks or the service is unavailable for a moment. */
const withRepeatedReads = (api: ApiClient): ApiClient => ({
  ...api,
  get: (...request) =>
    eventually(async () => {
      const answer = await api.get(...request);
      return answer.status === 503 ? null : answer;
    }),
});

/** A client that reads one device: its version must never go back. */
class ReadCheck {
  readonly violations: string[] = [];
  readonly #running: Promise<void>;
  #stopped = false;

  constructor(api: ApiClient, deviceId: string) {
    this.#running = this.#read(api, deviceId);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  async #read(api: ApiClient, deviceId: string): Promise<void> {
    let last = 0;
    while (!this.#stopped) {
      const answer = await api.get(`/v1/devices/${deviceId}`).catch(() => null);
      const version: number = answer?.status === 200 ? answer.body.device.state_version : last;
      if (version < last) this.violations.push(`device ${deviceId} was read as ${version} after ${last}`);
      last = Math.max(last, version);
      await pause(20);
    }
  }
}
