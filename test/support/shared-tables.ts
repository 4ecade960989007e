import { expect } from 'vitest';
import { SHARD_COUNT } from '../../src/domain/shards.ts';
import type { Uuid } from '../../src/domain/values.ts';
import { type CoordinatorTiming, ShardCoordinator } from '../../src/services/shard-coordinator.ts';
import type { Cluster, ClusterNode, DrainResult, MembershipState } from '../../src/store/contract/cluster.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { silentLog } from './lock-parts.ts';

const timing: CoordinatorTiming = { poll: 5, alone: 60_000, route: 2_000, requests: 5_000, retry: 20 };
const nodeId = (n: number): Uuid => `0195d9a2-7f00-7000-8000-00000000000${n}`;

/** The tables of nodes and owners that all nodes of a test share, with the rules of the database. */
export class SharedTables {
  readonly nodes = new Map<Uuid, ClusterNode>();
  readonly fenced = new Set<Uuid>();
  readonly owners: (Uuid | null)[] = Array.from({ length: SHARD_COUNT }, () => null);
  readonly levels: number[] = this.owners.map(() => 0);
  readonly listeners: (() => void)[] = [];
  /** Hooks of a test. */
  beforeFence: () => Promise<void> = async () => {};
  afterView: (self: Uuid) => Promise<void> = async () => {};
  /** While it is set, every statement fails. */
  unavailable = false;

  cluster(self: Uuid, dataLevel = 1): Cluster {
    const number = this.nodes.size + 1;
    this.nodes.set(self, {
      ...{ id: self, number, address: `${number}:8080`, link: null, build: 'test' },
      ...{ state: 'joining', startedAt: 0, alive: true },
      ...{ schemaLevel: 23, dataLevel },
    });
    const statement = async <T>(run: () => T): Promise<T> => {
      await null;
      if (this.unavailable || this.fenced.has(self)) throw new StoreUnavailable('no database');
      return run();
    };
    const changed = (): void => {
      for (const listener of this.listeners) listener();
    };
    return {
      self,
      view: async () => {
        const view = await statement(() => ({
          nodes: [...this.nodes.values()].filter(({ id }) => !this.fenced.has(id)).map((node) => ({ ...node })),
          owners: [...this.owners],
          levels: [...this.levels],
          leader: [...this.nodes.values()].find(({ id, alive }) => alive && !this.fenced.has(id))?.id === self,
        }));
        await this.afterView(self);
        return view;
      },
      announce: (state: MembershipState, link: string) =>
        statement(() => {
          Object.assign(this.nodes.get(self) as ClusterNode, { state, link });
          changed();
        }),
      publish: () => statement(() => {}),
      report: () =>
        statement(() => ({
          nodes: [...this.nodes.values()].map((node) => ({ ...node, figures: null, leaseAgeMs: null })),
          owners: [...this.owners],
          levels: [...this.levels],
        })),
      drain: (id) => statement(() => this.setState(id, 'draining')),
      resume: (id) => statement(() => this.setState(id, 'active')),
      fence: async (ids) => {
        await this.beforeFence();
        return statement(() => {
          for (const id of ids) if (this.nodes.get(id)?.alive === false) this.fenced.add(id);
          changed();
        });
      },
      claim: (shards) =>
        statement(() => {
          for (const shard of shards) {
            const owner = this.owners[shard] ?? null;
            if (owner === null || this.fenced.has(owner)) this.#setOwner(shard, self);
          }
          changed();
        }),
      handOver: (shards, to) =>
        statement(() => {
          for (const shard of shards) if (this.owners[shard] === self) this.#setOwner(shard, to);
          changed();
        }),
      onChange: (listener) => void this.listeners.push(listener),
    };
  }

  /** As the trigger of the table: a node gets no shard whose data level it cannot read, and its own level stays. */
  #setOwner(shard: number, node: Uuid): void {
    const { dataLevel } = this.nodes.get(node) as ClusterNode;
    if (dataLevel < (this.levels[shard] ?? 0)) return;
    this.levels[shard] = dataLevel;
    this.owners[shard] = node;
  }

  /** The request of an operator, which arrived at any node. */
  setState(id: Uuid, state: MembershipState): DrainResult {
    Object.assign(this.nodes.get(id) as ClusterNode, { state });
    for (const listener of this.listeners) listener();
    return 'done';
  }

  /** The process of a node ends without an announcement. */
  kill({ self, coordinator }: TestNode): void {
    void coordinator.stop();
    (this.nodes.get(self) as ClusterNode).alive = false;
  }
}

export interface TestNode {
  self: Uuid;
  coordinator: ShardCoordinator;
  /** The shards that its host runs. */
  running: Set<number>;
  /** The nodes that it has seen leave. */
  gone: Uuid[];
  /** The behaviour of its host, which a test can replace. */
  host: { beforeOpen(): Promise<void>; mayClose(shards: ReadonlySet<number>): Promise<boolean> };
}

const stopping: ShardCoordinator[] = [];

/** Stops the coordinators of all nodes of a test; for `afterEach`. */
export function stopCoordinators(): void {
  for (const coordinator of stopping.splice(0)) void coordinator.stop();
}

/** No two nodes that are alive run the same shard, whatever happens. */
export function assertExclusive(nodes: readonly TestNode[]): void {
  const seen = new Set<number>();
  for (const { running } of nodes) {
    for (const shard of running) {
      expect(seen.has(shard)).toBe(false);
      seen.add(shard);
    }
  }
}

export function makeNode(
  tables: SharedTables,
  n: number,
  all: TestNode[] = [],
  { dataLevel = 1, ...more }: Partial<CoordinatorTiming> & { dataLevel?: number } = {},
): TestNode {
  const self = nodeId(n);
  const running = new Set<number>();
  const gone: Uuid[] = [];
  const host: TestNode['host'] = { beforeOpen: async () => {}, mayClose: async () => true };
  const coordinator = new ShardCoordinator({
    cluster: tables.cluster(self, dataLevel),
    log: silentLog,
    onNodeGone: (id) => gone.push(id),
    timing: { ...timing, ...more },
    host: {
      async open(shards) {
        await host.beforeOpen();
        for (const shard of shards) running.add(shard);
        assertExclusive(all);
      },
      async close(shards) {
        if (!(await host.mayClose(shards))) return false;
        for (const shard of shards) running.delete(shard);
        return true;
      },
    },
  });
  stopping.push(coordinator);
  const node = { self, coordinator, running, gone, host };
  all.push(node);
  return node;
}

export async function startNode(...args: Parameters<typeof makeNode>): Promise<TestNode> {
  const node = makeNode(...args);
  await node.coordinator.start(`127.0.0.1:700${args[1]}`);
  return node;
}

export const total = (nodes: readonly TestNode[]): number => nodes.reduce((sum, { running }) => sum + running.size, 0);
