import { join } from 'node:path';
import pg from 'pg';
import { shardOf } from '../../src/domain/shards.ts';
import type { Child } from '../support/child.ts';
import { type Population, populateTenants } from '../support/population.ts';
import type { Cluster } from '../support/postgres.ts';
import { type Deployment, makeDeployment, type RunningService, startLoad, startService } from '../support/service.ts';
import type { TenantClients } from './load.ts';

const PLACEMENT_TIMEOUT_MS = 60_000;
/** Connections of the callers of one tenant. */
const CALLERS = 4;

export interface GroupOptions {
  /** Name of the group and of its database. */
  name: string;
  nodes: number;
  /** False: a process without `NODE_ADDRESS`, which has the database to itself. */
  shared: boolean;
  tenants: number;
  /** Devices of each tenant. */
  devices: number;
  /** Folder for the CPU profiles of the nodes, each in a separate folder. */
  profile?: string | null;
}

/** Where the clients of a tenant connect: to the node that owns it, or each to any node. */
export type Place = 'owner' | 'any node';

const SHARDS = 256;

/** Nodes on one database, with a process that is their load. */
export class NodeGroup {
  readonly name: string;
  readonly load: Child;
  readonly tenants: readonly Population[];
  readonly deployment: Deployment;
  readonly nodes: RunningService[] = [];
  readonly #options: GroupOptions;
  readonly #db: pg.Pool;
  /** Number of clients that were placed at any node. */
  #placed = 0;

  private constructor(options: GroupOptions, deployment: Deployment, tenants: readonly Population[]) {
    this.name = options.name;
    this.#options = options;
    this.deployment = deployment;
    this.tenants = tenants;
    this.#db = new pg.Pool({ connectionString: deployment.env.DATABASE_URL as string, max: 1 });
    this.load = startLoad(new URL('./load.ts', import.meta.url));
  }

  static async start(cluster: Cluster, options: GroupOptions): Promise<NodeGroup> {
    const deployment = makeDeployment(await cluster.database(options.name));
    // Spread over the shards, whatever their number.
    const shards = Array.from(
      { length: options.tenants },
      (_, n) => Math.floor((n * SHARDS) / options.tenants) % SHARDS,
    );
    const tenants = await populateTenants(deployment, { devices: options.devices, reported: true, shards });
    const group = new NodeGroup(options, deployment, tenants);
    await group.#sendAndWait({ setUp: { tenants } });
    for (let n = 0; n < options.nodes; n += 1) await group.startNode();
    await group.whenPlaced();
    return group;
  }

  async startNode(): Promise<void> {
    const { deployment, name } = this;
    const { shared, profile } = this.#options;
    const env = { ...deployment.env, ...(shared && { NODE_ADDRESS: '127.0.0.1:0' }) };
    const folder = profile ? join(profile, `${name}-${this.nodes.length + 1}`) : null;
    const node = await startService({ ...deployment, env }, { profile: folder });
    await node.active;
    this.nodes.push(node);
  }

  async kill(node: RunningService): Promise<void> {
    this.nodes.splice(this.nodes.indexOf(node), 1);
    await node.child.kill();
  }

  async stopNode(node: RunningService): Promise<void> {
    this.nodes.splice(this.nodes.indexOf(node), 1);
    await node.stop();
  }

  /** Resolves when every node owns its part of the shards, and none moves. */
  async whenPlaced(): Promise<void> {
    if (!this.#options.shared) return;
    const until = performance.now() + PLACEMENT_TIMEOUT_MS;
    let before = '';
    for (;;) {
      const owners = await this.#owners();
      const now = JSON.stringify(owners);
      const parts = Map.groupBy(owners, (port) => port);
      const isPlaced = !parts.has(0) && parts.size === this.nodes.length;
      const isBalanced = [...parts.values()].every(({ length }) => length > SHARDS / this.nodes.length / 2);
      if (isPlaced && isBalanced && now === before) return;
      before = now;
      if (performance.now() > until) throw new Error(`the shards of ${this.name} were not placed`);
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  /** HTTP port of the owner by shard; 0 if it is not running. */
  async #owners(): Promise<number[]> {
    const { rows } = await this.#db.query<{ shard: number; address: string }>(
      'select shard, address from shards join nodes on id = owner',
    );
    const ports = new Set(this.nodes.map(({ port }) => port));
    const owners = Array.from({ length: SHARDS }, () => 0);
    for (const { shard, address } of rows) {
      const port = Number(address.split(':').at(-1));
      if (ports.has(port)) owners[shard] = port;
    }
    return owners;
  }

  /** Indexes of the tenants that each node owns. */
  async tenantsByNode(): Promise<Map<RunningService, number[]>> {
    const owners = this.#options.shared ? await this.#owners() : null;
    const found = new Map(this.nodes.map((node) => [node, [] as number[]]));
    for (const [index, { tenantId }] of this.tenants.entries()) {
      const port = owners?.[shardOf(tenantId)];
      const node = this.nodes.find((one) => port === undefined || one.port === port);
      if (node !== undefined) found.get(node)?.push(index);
    }
    return found;
  }

  /** Connects the clients of the first `tenants` tenants of each node. */
  async connect(tenants: number, place: Place): Promise<void> {
    const clients: TenantClients[] = [];
    for (const [owner, owned] of await this.tenantsByNode()) {
      if (owned.length < tenants) throw new Error(`a node of ${this.name} owns only ${owned.length} tenants`);
      for (const tenant of owned.slice(0, tenants)) {
        const choose = (count: number) =>
          Array.from({ length: count }, () => (place === 'owner' ? owner : this.#next()));
        clients.push({
          tenant,
          mqttPorts: choose(this.#options.devices).map(({ mqttPort }) => mqttPort),
          httpPorts: choose(CALLERS).map(({ port }) => port),
        });
      }
    }
    // Interleaved, so that the load goes from node to node.
    const order = clients.map((client, n) => ({ client, at: n % tenants }));
    order.sort((a, b) => a.at - b.at);
    await this.#sendAndWait({ connect: order.map(({ client }) => client) });
  }

  /** Connects one device and one caller of each of these tenants at `node`; the device connects again when it is closed. */
  async connectFirst(tenants: readonly number[], node: RunningService): Promise<void> {
    const clients = tenants.map((tenant) => ({ tenant, mqttPorts: [node.mqttPort], httpPorts: [node.port] }));
    await this.#sendAndWait({ connect: clients });
    await this.#sendAndWait({ prepareTakeover: true });
  }

  async disconnect(): Promise<void> {
    await this.#sendAndWait({ disconnect: true });
  }

  /** Processor time of all nodes in microseconds, so far. */
  async cpu(): Promise<number> {
    const each = this.nodes.map(({ child }) => {
      child.send({ cpu: true });
      return child.receive<number>('cpu');
    });
    return (await Promise.all(each)).reduce((sum, one) => sum + one, 0);
  }

  async stop(): Promise<void> {
    await this.load.end();
    await Promise.all(this.nodes.map((node) => node.stop()));
    await this.#db.end();
    this.deployment.remove();
  }

  /** In turn: as evenly as chance would do it in the long run. */
  #next(): RunningService {
    this.#placed += 1;
    return this.nodes[this.#placed % this.nodes.length] as RunningService;
  }

  async #sendAndWait(message: object): Promise<void> {
    this.load.send(message);
    await this.load.receive('done');
  }
}
