import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { readTokenKey } from '../../src/config.ts';
import { LEASE_MS } from '../../src/domain/lease.ts';
import { issueToken } from '../../src/main.ts';
import { PLATFORM_SCOPE } from '../../src/services/tokens.ts';
import { type LockTiming, lockTiming } from '../../src/store/lock/lock-timing.ts';
import { type Balancer, startBalancer } from '../support/balancer.ts';
import { eventually } from '../support/clock.ts';
import { type Deployment, makePostgresDeployment } from '../support/deployment.ts';
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts';
import { freePort } from '../support/programs.ts';
import { type ApiClient, makeApiClient } from '../support/service.ts';
import {
  freePorts,
  frequentCompaction,
  type Ports,
  type ServiceProcess,
  startServiceProcess,
} from '../support/spawn-service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { resumeProcess } from '../support/two-processes.ts';
import { sql } from '../support/write-oracle.ts';

/** How long anything may take after a fault. Generous: a machine may be slow, and a device waits 15 s for a sign-in. */
export const PROGRESS_MS = 60_000;

/** How long a node may take to become active: on a busy machine it may lose a short lease while it starts, and starts again. */
const START_MS = 180_000;

/** Timing of the locks of all nodes. */
export interface NodeTiming {
  name: string;
  lock: Partial<LockTiming>;
  /** Milliseconds. */
  lease: number;
}

/** A node loses its shards within seconds, so that a round is short; the relations between the values are the product's. */
const shortLease = 4_000;
export const timings = {
  short: {
    name: 'short lease',
    lock: { ...lockTiming, lease: shortLease, renew: 400, idleSession: 5_000, unreachable: 5_000, poll: 50 },
    lease: shortLease,
  },
  product: { name: "the product's lease", lock: {}, lease: LEASE_MS },
} satisfies Record<string, NodeTiming>;

/** The ports of a node, and the proxies between it, the database and the other nodes. */
export interface Place {
  ports: Ports;
  /** Port of the listener for other nodes. */
  linkPort: number;
  /** Between the node and the database. */
  proxy: TcpProxy;
  /** Between the other nodes and this one; connections of this node to others do not pass it. */
  link: TcpProxy;
  process: ServiceProcess;
  /** The node is not started again when it ends. */
  removed: boolean;
}

/** Nodes as processes on one PostgreSQL server, which can be replaced by its standby, behind two balancers. */
export class NemesisCluster {
  readonly timing: NodeTiming;
  readonly places: Place[] = [];
  /** With what the nodes wrote to stderr. */
  readonly folder = mkdtempSync(join(tmpdir(), 'twinkeep-nemesis-'));
  readonly #deployment: Deployment;
  readonly #servers: PostgresServer[];
  readonly #balancers: { http: Balancer; mqtt: Balancer };
  /** Environment of the nodes. */
  readonly #nodeEnv: Record<string, string>;
  #started = 0;
  /** A primary that was replaced has run on beside its successor. */
  hadTwoPrimaries = false;
  #closing = false;

  private constructor(parts: {
    timing: NodeTiming;
    deployment: Deployment;
    server: PostgresServer;
    balancers: { http: Balancer; mqtt: Balancer };
    nodeEnv: Record<string, string>;
  }) {
    this.timing = parts.timing;
    this.#deployment = parts.deployment;
    this.#servers = [parts.server];
    this.#balancers = parts.balancers;
    this.#nodeEnv = parts.nodeEnv;
  }

  /** Resolves when all nodes are active. */
  static async start(nodes: number, timing: NodeTiming, nodeEnv: Record<string, string> = {}): Promise<NemesisCluster> {
    const server = await startServer();
    const deployment = (await makePostgresDeployment(false, server.url)) as Deployment;
    const balancers = { http: await startBalancer([]), mqtt: await startBalancer([]) };
    const cluster = new NemesisCluster({ timing, deployment, server, balancers, nodeEnv });
    try {
      for (let n = 0; n < nodes; n++) await cluster.addPlace();
      return cluster;
    } catch (error) {
      await cluster.close();
      throw error;
    }
  }

  get deployment(): Deployment {
    return this.#deployment;
  }

  /** Of the present primary, without a proxy. */
  get databaseUrl(): string {
    return this.#server.url + new URL(this.#deployment.databaseUrl ?? '').pathname;
  }

  /** Clients of the balancer, and of each node in turn. */
  readonly clientOf = (token: string): ApiClient =>
    makeApiClient(`http://127.0.0.1:${this.#balancers.http.port}`, token);

  nodeClient(place: Place, token: string): ApiClient {
    return makeApiClient(`http://127.0.0.1:${place.ports.PORT}`, token);
  }

  async operator(): Promise<ApiClient> {
    const key = readTokenKey(this.#deployment.env);
    return this.clientOf(await issueToken(key, { sub: 'operator', scope: PLATFORM_SCOPE, ttlS: 86_400 }));
  }

  /** The id of the node that runs at the place, or null while it is not registered. */
  async nodeAt({ link }: Place): Promise<string | null> {
    const text = 'select id from nodes where epoch = 1 and link = $1 order by number desc limit 1';
    const [row] = await sql<{ id: string }>(this.databaseUrl, text, [`127.0.0.1:${link.port}`]);
    return row?.id ?? null;
  }

  /** Starts another node; resolves when it is active. */
  async addPlace(): Promise<Place> {
    const proxy = await startTcpProxy(this.#server.url);
    const linkPort = await freePort();
    const link = await startTcpProxy(`tcp://127.0.0.1:${linkPort}`);
    const place: Place = { ports: await freePorts(), linkPort, proxy, link, process: null as never, removed: false };
    this.places.push(place);
    this.#start(place);
    await eventually(() => place.process.active.then(() => true), START_MS);
    this.#balancers.http.targets.push(Number(place.ports.PORT));
    this.#balancers.mqtt.targets.push(Number(place.ports.MQTT_PORT));
    return place;
  }

  async removePlace(place: Place, signal: NodeJS.Signals): Promise<void> {
    place.removed = true;
    remove(this.places, place);
    remove(this.#balancers.http.targets, Number(place.ports.PORT));
    remove(this.#balancers.mqtt.targets, Number(place.ports.MQTT_PORT));
    await place.process.kill(signal);
    await Promise.all([place.proxy.close(), place.link.close()]);
  }

  async restartDatabase(): Promise<void> {
    await this.#server.crash();
    await this.#server.restart();
  }

  /**
   * Promotes a standby, which has everything that was acknowledged, because each commit waits for it. The old primary
   * ends, or keeps running for its remaining connections for `oldRunsMs`.
   */
  async failOver(oldRunsMs: number | null): Promise<void> {
    const old = this.#server;
    const standby = await startServer(old.url);
    const admin = `${old.url}/postgres`;
    await sql(admin, `alter system set synchronous_standby_names = '*'`);
    await sql(admin, 'select pg_reload_conf()');
    await eventually(
      async () => (await sql(admin, `select from pg_stat_replication where sync_state = 'sync'`)).length === 1,
      PROGRESS_MS,
    );
    if (oldRunsMs === null) await old.crash();
    await sql(`${standby.url}/postgres`, 'select pg_promote()');
    this.#servers.push(standby);
    for (const { proxy } of this.places) proxy.retarget(standby.url);
    if (oldRunsMs === null) return;
    this.hadTwoPrimaries = true;
    await pause(oldRunsMs);
    await old.crash();
  }

  /** Every node is active and owns shards. */
  async whenSettled(): Promise<void> {
    await eventually(async () => {
      const [row] = await sql<{ owners: number }>(
        this.databaseUrl,
        'select count(distinct owner)::integer as owners from shards join nodes on id = owner where nodes.epoch = 1',
      );
      return row?.owners === this.places.length;
    }, PROGRESS_MS);
  }

  async close(): Promise<void> {
    this.#closing = true;
    for (const { process } of this.places) resumeProcess(process.pid);
    await Promise.all(this.places.map(({ process }) => process.kill('SIGKILL')));
    const { http, mqtt } = this.#balancers;
    const proxies = this.places.flatMap(({ proxy, link }) => [proxy, link]);
    await Promise.all([...proxies, http, mqtt].map((one) => one.close()));
    await Promise.all(this.#servers.map((server) => server.stop()));
    rmSync(this.#deployment.env.DATA_DIR ?? '', { recursive: true, force: true });
  }

  /** For a run without failures. */
  removeLogs(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  get #server(): PostgresServer {
    return this.#servers.at(-1) as PostgresServer;
  }

  /** Starts the node of a place, and again when it ends, as a supervisor would. */
  #start(place: Place): void {
    const { http, mqtt } = this.#balancers;
    this.#started += 1;
    const log = join(this.folder, `node-${place.ports.PORT}.log`);
    const line = (text: string): void => appendFileSync(log, `${new Date().toISOString()} ${text}\n`);
    line(`start ${this.#started}`);
    const env = {
      ...place.ports,
      NODE_ADDRESS: `127.0.0.1:${place.linkPort}`,
      NODE_LINK: `127.0.0.1:${place.link.port}`,
      DATABASE_URL: place.proxy.proxiedUrl(this.#deployment.databaseUrl ?? ''),
      PUBLIC_URL: `http://127.0.0.1:${http.port}`,
      MQTT_PUBLIC_URL: `mqtt://127.0.0.1:${mqtt.port}`,
      ...frequentCompaction,
      LOCK_TIMING: JSON.stringify(this.timing.lock),
      ...this.#nodeEnv,
    };
    place.process = startServiceProcess(this.#deployment, env, (chunk) => line(`${chunk}`.trimEnd()));
    void place.process.exited.then(({ code, signal }) => {
      line(`ended with ${signal ?? code}`);
      if (!this.#closing && !place.removed) this.#start(place);
    });
  }
}

/** Records when each transaction was committed. */
const startServer = async (standbyOf?: string): Promise<PostgresServer> =>
  (await startPostgres({ standbyOf, settings: { track_commit_timestamp: 'on' } })) as PostgresServer;

function remove<T>(list: T[], item: T): void {
  const at = list.indexOf(item);
  if (at >= 0) list.splice(at, 1);
}
