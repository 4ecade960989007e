import { rmSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { shardOf } from '../../src/domain/shards.ts';
import { type Balancer, startBalancer } from '../support/balancer.ts';
import { eventually } from '../support/clock.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts';
import { freePort } from '../support/programs.ts';
import { type ApiClient, makeApiClient } from '../support/service.ts';
import { freePorts, newOwner, startServiceProcess } from '../support/spawn-service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { quickLock, resumeProcess } from '../support/two-processes.ts';
import { Workload } from '../support/workload.ts';
import { sql, watchWrites, writesByEpoch } from '../support/write-oracle.ts';
import { nextFault, type Place, seconds } from './faults.ts';
import { type Load, PlanLoad, RevocationLoad } from './loads.ts';

/** A device waits up to 15 s for the answer to its sign-in on a connection that was forgotten. */
const PROGRESS_MS = 28_000;

/** Three nodes on one database under load, with faults of one node at a time. */
export class Nemesis {
  readonly log: string[] = [];
  readonly #deployment: Deployment;
  readonly #balancers: { http: Balancer; mqtt: Balancer };
  readonly #places: Place[] = [];
  readonly #loads: Workload[] = [];
  readonly #reads: ReadCheck[] = [];
  readonly #cycles: Load[] = [];
  readonly #servers: PostgresServer[];
  #closing = false;

  private constructor(server: PostgresServer, deployment: Deployment, balancers: { http: Balancer; mqtt: Balancer }) {
    this.#servers = [server];
    this.#deployment = deployment;
    this.#balancers = balancers;
  }

  static async start({ nodes, tenants }: { nodes: number; tenants: number }): Promise<Nemesis> {
    const server = (await startPostgres()) as PostgresServer;
    const deployment = (await makePostgresDeployment(false, server.url)) as Deployment;
    const balancers = { http: await startBalancer([]), mqtt: await startBalancer([]) };
    const nemesis = new Nemesis(server, deployment, balancers);
    for (let n = 0; n < nodes; n++) await nemesis.#addPlace();
    await watchWrites(nemesis.#databaseUrl);
    for (let n = 0; n < tenants; n++) await nemesis.#addTenant(n);
    return nemesis;
  }

  /** One fault of one node, then the time until everything makes progress again. */
  async round(random: () => number, names?: readonly string[]): Promise<void> {
    const fault = nextFault(random, names);
    const place = this.#places[Math.floor(random() * this.#places.length)] as Place;
    const what = await fault.run(place, random, { restart: this.#restart, failOver: this.#failOver });
    const from = performance.now();
    await this.#progress().catch((error: Error) => {
      throw new Error(`${error.message} after:\n${[...this.log, `${fault.name} ${what}`].join('\n')}`);
    });
    this.log.push(`${fault.name} ${what}: progress after ${seconds(performance.now() - from)}`);
    await this.#assertNoViolations();
  }

  async #assertNoViolations(): Promise<void> {
    const violations = [
      ...(await this.#violations()),
      ...[...this.#reads, ...this.#cycles].flatMap((check) => check.violations),
    ];
    if (violations.length > 0) throw new Error(`${violations.join('; ')} after:\n${this.log.join('\n')}`);
  }

  /** Compares everything that was acknowledged with the final state. */
  async verify(): Promise<void> {
    await this.#whenSettled();
    for (const check of [...this.#reads, ...this.#cycles]) await check.stop();
    for (const load of [...this.#loads, ...this.#cycles]) await load.verify();
    await this.#assertNoViolations();
  }

  async close(): Promise<void> {
    this.#closing = true;
    for (const check of [...this.#reads, ...this.#cycles]) void check.stop();
    await Promise.all([...this.#loads, ...this.#cycles].map((load) => load.close()));
    for (const { process } of this.#places) resumeProcess(process.pid);
    await Promise.all(this.#places.map(({ process }) => process.kill('SIGKILL')));
    await Promise.all([
      ...this.#places.flatMap(({ proxy, link }) => [proxy.close(), link.close()]),
      ...this.#closeBalancers(),
    ]);
    await Promise.all(this.#servers.map((server) => server.stop()));
    rmSync(this.#deployment.env.DATA_DIR ?? '', { recursive: true, force: true });
  }

  get #server(): PostgresServer {
    return this.#servers.at(-1) as PostgresServer;
  }

  /** Of the present primary, without a proxy. */
  get #databaseUrl(): string {
    return this.#server.url + new URL(this.#deployment.databaseUrl ?? '').pathname;
  }

  /** Everything makes progress. */
  async #progress(): Promise<void> {
    const before = this.#cycles.map(({ done }) => done);
    for (const load of this.#loads) await load.waitForProgress(1, PROGRESS_MS);
    await eventually(() => {
      const waiting = this.#cycles.filter(({ done }, n) => done <= (before[n] ?? 0));
      if (waiting.length === 0) return true;
      throw new Error(waiting.map((load) => `${load.constructor.name}: ${load.last}`).join('; '));
    }, PROGRESS_MS);
  }

  readonly #restart = async (): Promise<void> => {
    await this.#server.crash();
    await this.#server.restart();
  };

  /** The standby has everything that was acknowledged, because each commit waits for it. */
  readonly #failOver = async (random: () => number): Promise<string> => {
    const old = this.#server;
    const standby = (await startPostgres({ standbyOf: old.url })) as PostgresServer;
    const admin = `${old.url}/postgres`;
    await sql(admin, `alter system set synchronous_standby_names = '*'`);
    await sql(admin, 'select pg_reload_conf()');
    await eventually(
      async () => (await sql(admin, `select from pg_stat_replication where sync_state = 'sync'`)).length === 1,
      PROGRESS_MS,
    );
    const ends = random() < 0.5;
    if (ends) await old.crash();
    await sql(`${standby.url}/postgres`, 'select pg_promote()');
    this.#servers.push(standby);
    for (const { proxy } of this.#places) proxy.retarget(standby.url);
    if (!ends) await pause(random() * 2 * quickLock.lease);
    if (!ends) await old.crash();
    return ends ? 'the old one ended' : 'the old one kept running for a while';
  };

  #closeBalancers(): Promise<void>[] {
    return [this.#balancers.http.close(), this.#balancers.mqtt.close()];
  }

  async #addPlace(): Promise<void> {
    const proxy = await startTcpProxy(this.#server.url);
    const linkPort = await freePort();
    const link = await startTcpProxy(`tcp://127.0.0.1:${linkPort}`);
    const place: Place = { ports: await freePorts(), linkPort, proxy, link, process: null as never };
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
      NODE_ADDRESS: `127.0.0.1:${place.linkPort}`,
      NODE_LINK: `127.0.0.1:${place.link.port}`,
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
        this.#databaseUrl,
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
    const written = async (deviceId: string): Promise<string[]> => {
      const text = 'select id from commands where device_id = $1 and written';
      return (await sql<{ id: string }>(this.#databaseUrl, text, [deviceId])).map(({ id }) => id);
    };
    this.#cycles.push(await PlanLoad.start(owner), await RevocationLoad.start(owner, written));
    this.log.push(`tenant ${n} in shard ${shardOf(owner.tenantId)}`);
  }

  async #violations(): Promise<string[]> {
    const url = this.#databaseUrl;
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
