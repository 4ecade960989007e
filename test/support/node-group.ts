import { shardOf } from '../../src/domain/shards.ts';
import { PlanLoad } from '../nemesis/loads/plan-load.ts';
import { type Balancer, startBalancer } from './balancer.ts';
import type { Build } from './builds.ts';
import { eventually } from './clock.ts';
import { type Deployment, makePostgresDeployment } from './deployment.ts';
import { type ApiClient, makeApiClient } from './service.ts';
import { type ExitResult, freePorts, newOwner, type Ports, type Served, serve } from './spawn-service.ts';
import { Workload } from './workload.ts';
import { sql, watchWrites, writesByEpoch } from './write-oracle.ts';

/** Starts of processes need most of the time of two cores. A node is away for seconds, so the load meets each move. */
const PACE_MS = 400;

/** A node, and the ports that its successor takes over. */
export interface GroupNode {
  ports: Ports;
  served: Served;
}

interface Tenant {
  owner: ApiClient & { homeId: string; tenantId: string };
  load: Workload;
  plans: PlanLoad;
  /** Sign-ins of each device after its first. */
  reconnects: number[];
  /** Owners that its shard had before. */
  movesBefore: number;
  stopsBefore: number;
}

/** Nodes of any builds on one database behind a balancer, which are replaced one by one under load. */
export class NodeGroup {
  readonly nodes: GroupNode[] = [];
  readonly tenants: Tenant[] = [];
  readonly #deployment: Deployment;
  readonly #http: Balancer;
  readonly #mqtt: Balancer;
  /** All processes, also those that have not served yet. */
  readonly #processes: Served[] = [];
  /** Processes that have ended. */
  #stops = 0;

  readonly #partsOfHistory: boolean;

  private constructor(deployment: Deployment, http: Balancer, mqtt: Balancer, partsOfHistory: boolean) {
    this.#partsOfHistory = partsOfHistory;
    this.#deployment = deployment;
    this.#http = http;
    this.#mqtt = mqtt;
  }

  /** On an empty database, which the first node migrates. `partsOfHistory`: with builds that keep no history. */
  static async open({ partsOfHistory = false } = {}): Promise<NodeGroup> {
    const deployment = (await makePostgresDeployment(true)) as Deployment;
    return new NodeGroup(deployment, await startBalancer([]), await startBalancer([]), partsOfHistory);
  }

  get env(): Deployment['env'] {
    return this.#deployment.env;
  }

  sql<Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> {
    return sql<Row>(this.#deployment.databaseUrl ?? '', text, values);
  }

  /** Resolves when the node serves. `more` are settings of this node alone. */
  async start(build: Build, ports?: Ports, more: Record<string, string> = {}): Promise<GroupNode> {
    const node = await this.spawn(build, ports, more);
    await node.served.active();
    this.nodes.push(node);
    this.#http.targets.push(Number(node.ports.PORT));
    this.#mqtt.targets.push(Number(node.ports.MQTT_PORT));
    return node;
  }

  /** A process that gets no requests. */
  async spawn(build: Build, ports?: Ports, more: Record<string, string> = {}): Promise<GroupNode> {
    const own = ports ?? (await freePorts());
    const env = {
      NODE_ADDRESS: '127.0.0.1:0',
      PUBLIC_URL: `http://127.0.0.1:${this.#http.port}`,
      MQTT_PUBLIC_URL: `mqtt://127.0.0.1:${this.#mqtt.port}`,
      ...more,
    };
    const served = serve(this.#deployment, own, { build, env });
    this.#processes.push(served);
    return { ports: own, served };
  }

  async stop(node: GroupNode, signal: NodeJS.Signals = 'SIGTERM'): Promise<ExitResult> {
    this.#stops += 1;
    this.nodes.splice(this.nodes.indexOf(node), 1);
    for (const [{ targets }, port] of [
      [this.#http, node.ports.PORT],
      [this.#mqtt, node.ports.MQTT_PORT],
    ] as const) {
      targets.splice(targets.indexOf(Number(port)), 1);
    }
    return node.served.kill(signal);
  }

  /** Ends a node as an operator does and starts another build in its place, which has then got its part of the shards. */
  async replace(node: GroupNode, build: Build, more: Record<string, string> = {}): Promise<GroupNode> {
    const { code, stderr } = await this.stop(node);
    if (code !== 0) throw new Error(`the node ended with ${code}: ${stderr}`);
    const next = await this.start(build, node.ports, more);
    await this.settled();
    return next;
  }

  /** Every node owns shards, and every shard has a live owner. */
  async settled(): Promise<void> {
    await eventually(async () => {
      const found = await this.sql<{ shards: number }>(
        'select count(*)::integer as shards from shards join nodes on id = owner where nodes.epoch = 1 group by owner',
      );
      const all = found.reduce((sum, { shards }) => sum + shards, 0);
      return found.length === this.nodes.length && all === 256;
    });
  }

  /** Tenants with a device that reports and is commanded, a lock, and plans. They are in shards of `at`, if it is given. */
  async addTenants(count: number, at?: GroupNode): Promise<void> {
    if (this.tenants.length === 0) await watchWrites(this.#deployment.databaseUrl ?? '');
    for (let n = 0; n < count; n++) await this.#addTenant(`owner-${this.tenants.length}`, at);
  }

  async #addTenant(sub: string, at?: GroupNode): Promise<void> {
    const registrar = (token: string): ApiClient =>
      at === undefined ? this.client(token) : makeApiClient(at.served.url, token);
    const { token, homeId, tenantId } = await newOwner(this.#deployment, registrar, sub);
    const owner = { ...withRepeatedReads(this.client(token)), homeId, tenantId };
    const load = new Workload(owner, { paceMs: PACE_MS, partsOfHistory: this.#partsOfHistory });
    const counters = [await load.addDevice(), await load.addDevice({ critical: true })];
    const reconnects = counters.map(() => 0);
    for (const [n, { device }] of counters.entries()) {
      device.on('online', () => {
        reconnects[n] = (reconnects[n] ?? 0) + 1;
      });
    }
    const movesBefore = await this.#ownersOf(owner.tenantId);
    const plans = await PlanLoad.start(owner, () => [owner], { paceMs: PACE_MS });
    this.tenants.push({ owner, load, plans, reconnects, movesBefore, stopsBefore: this.#stops });
  }

  client(token: string): ApiClient {
    return makeApiClient(`http://127.0.0.1:${this.#http.port}`, token);
  }

  /** The node that owns the shard of a tenant. */
  async nodeOf(tenantId: string): Promise<GroupNode> {
    return eventually(async () => {
      const [row] = await this.sql<{ address: string }>(
        'select address from shards join nodes on id = owner where shard = $1 and nodes.epoch = 1',
        [shardOf(tenantId)],
      );
      return this.nodes.find(({ ports }) => row?.address.endsWith(`:${ports.PORT}`)) ?? null;
    });
  }

  async #ownersOf(tenantId: string): Promise<number> {
    const [row] = await this.sql<{ epoch: number }>('select epoch::integer as epoch from shards where shard = $1', [
      shardOf(tenantId),
    ]);
    return row?.epoch ?? 0;
  }

  /** Reports, commands and plans of these tenants, by default of all, are answered. */
  async progress(tenants: readonly Tenant[] = this.tenants): Promise<void> {
    const before = tenants.map(({ plans }) => plans.done);
    for (const { load } of tenants) await load.waitForProgress(1);
    await eventually(() => tenants.every(({ plans }, n) => plans.done > (before[n] ?? 0)));
  }

  /** Stops the load and returns what is wrong, after comparing everything that was acknowledged with the final state. */
  async verify(): Promise<string[]> {
    const wrong: string[] = [];
    for (const { load, plans } of this.tenants) {
      await plans.stop();
      await load.verify();
      await plans.verify();
      wrong.push(...plans.violations);
      // A repetition with the same key was answered; anything but these would not have been solved by it.
      wrong.push(...[...load.refused.keys()].filter((outcome) => !/^(no answer|still running|503 )/.test(outcome)));
    }
    const writes = await writesByEpoch(this.#deployment.databaseUrl ?? '');
    wrong.push(...writes.flatMap(({ violations }) => violations.map((table) => `write to ${table} without the shard`)));
    return wrong;
  }

  /** Devices that signed in more often than their shard moved and nodes ended. */
  async restlessDevices(): Promise<string[]> {
    const found: string[] = [];
    for (const { owner, reconnects, movesBefore, stopsBefore } of this.tenants) {
      const most = (await this.#ownersOf(owner.tenantId)) - movesBefore + this.#stops - stopsBefore;
      for (const count of reconnects) if (count > most) found.push(`${count} reconnects, ${most} moves and stops`);
    }
    return found;
  }

  async close(): Promise<void> {
    await Promise.all(
      this.tenants.flatMap(({ load, plans }) => [load.close(), plans.stop().then(() => plans.close())]),
    );
    await Promise.all(this.#processes.map((served) => served.kill()));
    await Promise.all([this.#http.close(), this.#mqtt.close()]);
    await this.#deployment.remove();
  }
}

/** A client that reads again if the connection breaks or the service is unavailable for a moment. */
export const withRepeatedReads = (api: ApiClient): ApiClient => ({
  ...api,
  get: (...request) =>
    eventually(async () => {
      const answer = await api.get(...request);
      return answer.status === 503 ? null : answer;
    }),
});
