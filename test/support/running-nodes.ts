import { afterAll, beforeAll } from 'vitest';
import { readTokenKey } from '../../src/config.ts';
import { shardOf } from '../../src/domain/shards.ts';
import { issueToken, type StartOptions } from '../../src/main.ts';
import { PLATFORM_SCOPE } from '../../src/services/tokens.ts';
import { eventually } from './clock.ts';
import { type Deployment, makePostgresDeployment } from './deployment.ts';
import { freePort } from './programs.ts';
import { type ApiClient, makeApiClient } from './service.ts';
import { freePorts, newOwner, type Ports, type ServiceProcess, startServiceProcess } from './spawn-service.ts';
import { sql } from './write-oracle.ts';

/** A node in a process of its own. */
export interface RunningNode extends ServiceProcess {
  ports: Ports;
  url: string;
  /** Of MQTT by TLS, if the nodes have a certificate. */
  mqttTlsPort: number | null;
}

/** The owner of a tenant with a home, as a client of one node. */
export type TenantOwner = Awaited<ReturnType<typeof newOwner>>;

/** Requests wait longer than by default for a tenant that moves, so that no test needs a fast machine. */
const LIMITS: StartOptions['limits'] = { coordinator: { route: 15_000 }, links: { retryMs: 15_000 } };
const NODE_ENV = { NODE_ADDRESS: '127.0.0.1:0', STOP_DELAY: '1', START_LIMITS: JSON.stringify(LIMITS) };

const FIRST_NODES = 3;

/** Three nodes in processes on one PostgreSQL database, for the tests of a suite; each owns a part of the shards. */
export class RunningNodes {
  readonly nodes: RunningNode[] = [];
  readonly #env: Record<string, string>;
  #deployed: Deployment | null = null;

  /**
   * To be called in a suite: the nodes are started before its tests and killed after them. `env` may be completed in an
   * earlier hook.
   */
  constructor(env: Record<string, string> = {}) {
    this.#env = env;
    beforeAll(async () => {
      this.#deployed = await makePostgresDeployment();
    });
    // One after another, with a hook for each: a slow machine has the time limit of a hook for every process.
    for (let n = 0; n < FIRST_NODES; n += 1) beforeAll(async () => void (await this.add()));
    beforeAll(() => this.spread());
    afterAll(() => this.#close());
  }

  get #deployment(): Deployment {
    if (this.#deployed === null) throw new Error('the database is created in beforeAll');
    return this.#deployed;
  }

  /** One more node, in addition or in place of one that has ended. */
  async add(more: Record<string, string> = {}): Promise<RunningNode> {
    const ports = await freePorts();
    const mqttTlsPort = this.#env.TLS_CERT === undefined ? null : await freePort();
    const env = { ...NODE_ENV, ...this.#env, ...(mqttTlsPort !== null && { MQTT_TLS_PORT: `${mqttTlsPort}` }) };
    const process = startServiceProcess(this.#deployment, { ...env, ...more, ...ports });
    const url = await process.listening;
    await process.active;
    const node = { ...process, ports, url, mqttTlsPort };
    this.nodes.push(node);
    return node;
  }

  async #close(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.kill()));
    await this.#deployed?.remove();
  }

  /** A token for this subject. */
  token(sub: string, more: { scope?: string; email?: string } = {}): Promise<string> {
    return issueToken(readTokenKey(this.#deployment.env), { sub, ttlS: 86_400, ...more });
  }

  /** The owner of a new tenant, as a client of the first node or of `node`. */
  owner(sub: string, node = this.nodes[0] as RunningNode): Promise<TenantOwner> {
    return newOwner(this.#deployment, (token) => makeApiClient(node.url, token), sub);
  }

  /** The same client at another node. */
  at({ url }: RunningNode, { token, homeId }: TenantOwner): ApiClient & { homeId: string } {
    return { ...makeApiClient(url, token), homeId };
  }

  async operator(node = this.nodes[0] as RunningNode): Promise<ApiClient> {
    return makeApiClient(node.url, await this.token('operator', { scope: PLATFORM_SCOPE }));
  }

  query<Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return sql<Row>(this.#deployment.databaseUrl ?? '', text, [...values]);
  }

  /** Resolves when each node, and no other one, owns a part of the shards. */
  async spread(): Promise<void> {
    await eventually(async () => {
      const found = await this.query<{ shards: number }>(
        `select count(*)::integer as shards from shards join nodes on id = owner where nodes.epoch = 1 group by owner`,
      );
      return found.length === this.nodes.length && found.every(({ shards }) => shards > 40);
    });
  }

  /** The node that owns a tenant. A shard can be handed over to a node that has just ended, and is then taken over. */
  ownerOf(tenantId: string): Promise<RunningNode> {
    return eventually(async () => {
      const [row] = await this.query<{ address: string }>(
        'select address from shards join nodes on id = owner where shard = $1',
        [shardOf(tenantId)],
      );
      return this.nodes.find(({ ports }) => row?.address.endsWith(`:${ports.PORT}`)) ?? null;
    });
  }

  /** The nodes that do not own the tenant. */
  async othersOf(tenantId: string): Promise<RunningNode[]> {
    const owner = await this.ownerOf(tenantId);
    return this.nodes.filter((node) => node !== owner);
  }

  /** Drains a node through another one; resolves when it owns no shard. Call the result to give it shards again. */
  async drain(node: RunningNode): Promise<() => Promise<void>> {
    const operator = await this.operator(this.nodes.find((other) => other !== node));
    const find = async () => {
      const { body } = await operator.get('/v1/admin/nodes');
      return body.nodes.find(({ address }: { address: string }) => address.endsWith(`:${node.ports.PORT}`));
    };
    const path = `/v1/admin/nodes/${(await find()).id}`;
    const drained = await operator.post(`${path}/drain`);
    if (drained.status !== 200) throw new Error(JSON.stringify(drained.body));
    await eventually(async () => (await find()).shards === 0);
    return async () => {
      await operator.post(`${path}/resume`);
      await this.spread();
    };
  }

  /** Replaces the nodes that have ended. Before each test, because none is needed after the last one. */
  async restore(): Promise<void> {
    const missing = FIRST_NODES - this.nodes.length;
    await Promise.all(Array.from({ length: Math.max(0, missing) }, () => this.add()));
    await this.spread();
  }

  /** Kills a node, or stops it with SIGTERM. It is not replaced. */
  async end(node: RunningNode, signal: NodeJS.Signals = 'SIGKILL'): ReturnType<RunningNode['kill']> {
    this.nodes.splice(this.nodes.indexOf(node), 1);
    return node.kill(signal);
  }
}
