import { afterEach, describe, expect, it } from 'vitest';
import { SHARD_COUNT, type ShardRoute } from '../../src/domain/shards.ts';
import type { Uuid } from '../../src/domain/values.ts';
import { type CoordinatorTiming, ShardCoordinator } from '../../src/services/shard-coordinator.ts';
import type { Cluster, ClusterNode, DrainResult, MembershipState } from '../../src/store/contract/cluster.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { eventLoopTurns, eventually } from '../support/clock.ts';
import { silentLog } from '../support/lock-parts.ts';

const timing: CoordinatorTiming = { poll: 5, route: 2_000, requests: 5_000, retry: 20 };
const nodeId = (n: number): Uuid => `0195d9a2-7f00-7000-8000-00000000000${n}`;

/** The tables of nodes and owners that all nodes of a test share, with the rules of the database. */
class SharedTables {
  readonly nodes = new Map<Uuid, ClusterNode>();
  readonly fenced = new Set<Uuid>();
  readonly owners: (Uuid | null)[] = Array.from({ length: SHARD_COUNT }, () => null);
  readonly listeners: (() => void)[] = [];
  /** Hooks of a test. */
  beforeFence: () => Promise<void> = async () => {};
  afterView: (self: Uuid) => Promise<void> = async () => {};
  /** While it is set, every statement fails. */
  unavailable = false;

  cluster(self: Uuid): Cluster {
    const number = this.nodes.size + 1;
    this.nodes.set(self, {
      ...{ id: self, number, address: `${number}:8080`, link: null, build: 'test' },
      ...{ state: 'joining', startedAt: 0, alive: true },
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
            if (owner === null || this.fenced.has(owner)) this.owners[shard] = self;
          }
          changed();
        }),
      handOver: (shards, to) =>
        statement(() => {
          for (const shard of shards) if (this.owners[shard] === self) this.owners[shard] = to;
          changed();
        }),
      onChange: (listener) => void this.listeners.push(listener),
    };
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

interface TestNode {
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
afterEach(() => {
  for (const coordinator of stopping.splice(0)) void coordinator.stop();
});

/** No two nodes that are alive run the same shard, whatever happens. */
function assertExclusive(nodes: readonly TestNode[]): void {
  const seen = new Set<number>();
  for (const { running } of nodes) {
    for (const shard of running) {
      expect(seen.has(shard)).toBe(false);
      seen.add(shard);
    }
  }
}

function makeNode(
  tables: SharedTables,
  n: number,
  all: TestNode[] = [],
  more: Partial<CoordinatorTiming> = {},
): TestNode {
  const self = nodeId(n);
  const running = new Set<number>();
  const gone: Uuid[] = [];
  const host: TestNode['host'] = { beforeOpen: async () => {}, mayClose: async () => true };
  const coordinator = new ShardCoordinator({
    cluster: tables.cluster(self),
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

async function startNode(...args: Parameters<typeof makeNode>): Promise<TestNode> {
  const node = makeNode(...args);
  await node.coordinator.start(`127.0.0.1:700${args[1]}`);
  return node;
}

const total = (nodes: readonly TestNode[]): number => nodes.reduce((sum, { running }) => sum + running.size, 0);

describe('the first node', () => {
  it('has opened all shards when it has started', async () => {
    const node = await startNode(new SharedTables(), 1);
    expect(node.running.size).toBe(SHARD_COUNT);
    expect(node.coordinator.counts()).toEqual({ open: SHARD_COUNT, opened: SHARD_COUNT, handedOver: 0, fenced: 0 });
    expect(node.coordinator.leader).toBe(true);
    expect(node.coordinator.enter(3)).toMatchObject({ at: 'here' });
  });

  it('opens its shards again until it succeeds', async () => {
    const node = makeNode(new SharedTables(), 1);
    let failures = 2;
    node.host.beforeOpen = async () => {
      if (failures-- > 0) throw new StoreUnavailable('no answer');
    };
    await node.coordinator.start('127.0.0.1:7001');
    await eventually(() => node.running.size === SHARD_COUNT);
    expect(await node.coordinator.enter(3)).toMatchObject({ at: 'here' });
  });
});

describe('a node that joins', () => {
  it('gets its part of the shards, and each shard runs on one node at a time', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all);
    const second = await startNode(tables, 2, all);
    const third = await startNode(tables, 3, all);
    await eventually(() => all.every(({ running }) => running.size > 50) && total(all) === SHARD_COUNT);
    await eventually(() => all.every(({ running, coordinator }) => coordinator.counts().open === running.size));
    for (const shard of Array.from({ length: SHARD_COUNT }, (_, n) => n)) {
      const owner = all.find(({ running }) => running.has(shard)) as TestNode;
      for (const { coordinator } of [first, second, third]) {
        const route = await coordinator.enter(shard);
        if (coordinator === owner.coordinator) expect(route.at).toBe('here');
        else expect(route).toMatchObject({ at: 'node', node: { id: owner.self } });
      }
    }
  });

  it('gets a shard only when the requests of the shard have ended', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all);
    const leaves: (() => void)[] = [];
    for (const shard of Array(SHARD_COUNT).keys()) {
      const route = await first.coordinator.enter(shard);
      if (route.at === 'here') leaves.push(route.leave);
    }
    const second = await startNode(tables, 2, all);
    const waiting = Promise.withResolvers<ShardRoute>();
    // A request that arrives while a shard waits for others is routed when the shard has moved.
    await eventually(() => {
      const route = [...Array(SHARD_COUNT).keys()].map((shard) => first.coordinator.enter(shard));
      for (const one of route) if (!(one instanceof Promise) && one.at === 'here') one.leave();
      const pending = route.find((one) => one instanceof Promise);
      if (pending !== undefined) waiting.resolve(pending);
      return pending !== undefined;
    });
    expect(second.running.size).toBe(0);
    expect(first.running.size).toBe(SHARD_COUNT);
    for (const leave of leaves) leave();
    expect(await waiting.promise).toMatchObject({ at: 'node', node: { id: second.self } });
    await eventually(() => second.running.size > 50);
  });

  it('gets the others while one has a request that does not end', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all, { requests: 20 });
    const routes = Array.from({ length: SHARD_COUNT }, (_, shard) => first.coordinator.enter(shard));
    for (const [shard, route] of routes.entries()) if (shard % 32 !== 0 && 'leave' in route) route.leave();
    const second = await startNode(tables, 2, all);
    await eventually(() => second.running.size > 50 && total(all) === SHARD_COUNT);
    expect([...second.running].filter((shard) => shard % 32 === 0)).toEqual([]);
  });

  it('gets the others while one has an actor that stays busy', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all);
    first.host.mayClose = async (shards) => ![...shards].some((shard) => shard % 32 === 0);
    const second = await startNode(tables, 2, all);
    await eventually(() => second.running.size > 50 && total(all) === SHARD_COUNT);
    expect([...second.running].filter((shard) => shard % 32 === 0)).toEqual([]);
  });

  it('does not get a shard that stays busy, which stays in use', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all);
    let refusals = 0;
    first.host.mayClose = async () => {
      refusals += 1;
      return false;
    };
    const second = await startNode(tables, 2, all);
    await eventually(() => refusals > 2);
    expect(second.running.size).toBe(0);
    expect(first.running.size).toBe(SHARD_COUNT);
    const route = await first.coordinator.enter(3);
    expect(route.at).toBe('here');
    if (route.at === 'here') route.leave();
    first.host.mayClose = async () => true;
    await eventually(() => second.running.size > 50);
  });
});

describe('a node that has ended', () => {
  it('is fenced, and the others open its shards', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const [first, second, third] = [
      await startNode(tables, 1, all),
      await startNode(tables, 2, all),
      await startNode(tables, 3, all),
    ];
    await eventually(() => all.every(({ running }) => running.size > 50) && total(all) === SHARD_COUNT);
    tables.kill(first);
    const left = [second, third];
    first.running.clear();
    await eventually(() => total(left) === SHARD_COUNT);
    expect(tables.fenced).toEqual(new Set([first.self]));
    await eventually(() => left.every(({ gone }) => gone.includes(first.self)));
    expect([...second.coordinator.liveNodes].sort()).toEqual([second.self, third.self].sort());
    await eventually(() => left.some(({ coordinator }) => coordinator.leader));
    expect(await second.coordinator.enter(3)).not.toEqual({ at: 'none' });
  });

  it('leaves requests waiting until its shard is open elsewhere', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all);
    const second = await startNode(tables, 2, all);
    await eventually(() => second.running.size > 50 && total(all) === SHARD_COUNT);
    const [shard] = [...first.running] as [number];
    tables.kill(first);
    first.running.clear();
    const opened = Promise.withResolvers<void>();
    second.host.beforeOpen = () => opened.promise;
    await eventually(() => tables.owners[shard] === second.self);
    await eventually(() => second.coordinator.shardsNotOpen === SHARD_COUNT - second.running.size);
    const route = second.coordinator.enter(shard);
    expect(route).toBeInstanceOf(Promise);
    opened.resolve();
    expect(await route).toMatchObject({ at: 'here' });
    await eventually(() => second.coordinator.shardsNotOpen === 0);
  });

  it('leaves requests without a route if its shard is not opened in time', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all, { route: 30 });
    const second = await startNode(tables, 2, all, { route: 30 });
    await eventually(() => second.running.size > 50 && total(all) === SHARD_COUNT);
    const [shard] = [...first.running] as [number];
    tables.unavailable = true;
    tables.kill(first);
    await second.coordinator.refresh();
    // The last reading is used while the database does not answer.
    expect(await second.coordinator.enter(shard)).toMatchObject({ at: 'node', node: { id: first.self } });
    second.host.beforeOpen = () => new Promise(() => {});
    tables.unavailable = false;
    await eventually(() => tables.owners[shard] === second.self);
    expect(await second.coordinator.enter(shard)).toEqual({ at: 'none' });
  });
});

describe('a node that drains', () => {
  it('hands over all its shards', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all);
    const second = await startNode(tables, 2, all);
    await eventually(() => second.running.size > 50);
    await first.coordinator.drain(10_000);
    expect(first.running.size).toBe(0);
    await eventually(() => second.running.size === SHARD_COUNT);
    expect(await first.coordinator.enter(3)).toMatchObject({ at: 'node', node: { id: second.self } });
  });

  it('keeps its shards if it is alone', async () => {
    const node = await startNode(new SharedTables(), 1);
    await node.coordinator.drain(10_000);
    expect(node.running.size).toBe(SHARD_COUNT);
  });

  it('ends after its time limit', async () => {
    const tables = new SharedTables();
    const first = await startNode(tables, 1);
    first.host.mayClose = () => new Promise(() => {});
    await startNode(tables, 2);
    await first.coordinator.drain(50);
    expect(first.running.size).toBe(SHARD_COUNT);
  });
});

describe('a node that an operator drains', () => {
  it('hands over all its shards, gets none, and routes requests to their owners', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const [first, second] = [await startNode(tables, 1, all), await startNode(tables, 2, all)];
    await eventually(() => second.running.size > 50 && total(all) === SHARD_COUNT);
    expect(first.coordinator.drainingNodes).toBe(0);
    tables.setState(first.self, 'draining');
    await eventually(() => second.running.size === SHARD_COUNT);
    await eventually(() => all.every(({ coordinator }) => coordinator.drainingNodes === 1));
    const third = await startNode(tables, 3, all);
    await eventually(() => third.running.size > 50 && total(all) === SHARD_COUNT);
    expect(first.running.size).toBe(0);
    await eventually(() => first.coordinator.counts().handedOver >= SHARD_COUNT - 128);
    expect(await first.coordinator.enter(3)).toMatchObject({ at: 'node' });
  });

  it('gets its part of the shards again when it is resumed', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const [first, second] = [await startNode(tables, 1, all), await startNode(tables, 2, all)];
    tables.setState(first.self, 'draining');
    await eventually(() => second.running.size === SHARD_COUNT);
    tables.setState(first.self, 'active');
    await eventually(() => first.running.size > 50 && total(all) === SHARD_COUNT);
  });

  it('takes over the shards of the last active node when that one ends', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const [first, second] = [await startNode(tables, 1, all), await startNode(tables, 2, all)];
    tables.setState(first.self, 'draining');
    await eventually(() => second.running.size === SHARD_COUNT);
    tables.kill(second);
    second.running.clear();
    await eventually(() => first.running.size === SHARD_COUNT);
  });

  it('announces that it stops when its process ends, so that it cannot be resumed', async () => {
    const tables = new SharedTables();
    const first = await startNode(tables, 1);
    const second = await startNode(tables, 2);
    await eventually(() => second.running.size > 50);
    tables.setState(first.self, 'draining');
    await first.coordinator.drain(10_000);
    expect(tables.nodes.get(first.self)?.state).toBe('stopping');
  });
});

describe('a node that drains early or while another node cannot be fenced', () => {
  it('does not become active after the drain', async () => {
    const tables = new SharedTables();
    const node = makeNode(tables, 1);
    await node.coordinator.drain(1_000);
    await node.coordinator.start('127.0.0.1:7001');
    expect(tables.nodes.get(node.self)?.state).toBe('joining');
    expect(node.running.size).toBe(0);
  });

  it('ends in time', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all);
    const second = await startNode(tables, 2, all);
    await eventually(() => second.running.size > 50 && total(all) === SHARD_COUNT);
    const fencing = Promise.withResolvers<void>();
    tables.beforeFence = () => {
      fencing.resolve();
      return new Promise(() => {});
    };
    tables.kill(first);
    await fencing.promise;
    await second.coordinator.drain(50);
    expect(second.running.size).toBeGreaterThan(0);
  });
});

describe('a hand-over during a reading of the owners', () => {
  it('does not bring the shard back', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all);
    // Each reading of the first node takes as long as a hand-over.
    tables.afterView = async (self) => {
      if (self !== first.self) return;
      const { handedOver } = first.coordinator.counts();
      for (let n = 0; n < 20 && first.coordinator.counts().handedOver === handedOver; n++) await eventLoopTurns();
    };
    const second = await startNode(tables, 2, all);
    await eventually(() => second.running.size > 50 && total(all) === SHARD_COUNT);
    assertExclusive(all);
  });
});

describe('a node that stops', () => {
  it('has opened what it was opening', async () => {
    const node = makeNode(new SharedTables(), 1);
    const opened = Promise.withResolvers<void>();
    const opening = Promise.withResolvers<void>();
    node.host.beforeOpen = () => {
      opening.resolve();
      return opened.promise;
    };
    const started = node.coordinator.start('127.0.0.1:7001');
    await opening.promise;
    let stopped = false;
    const stopping = node.coordinator.stop().then(() => {
      stopped = true;
    });
    expect(stopped).toBe(false);
    opened.resolve();
    await Promise.all([started, stopping]);
    expect(node.running.size).toBe(SHARD_COUNT);
  });
});

describe('a request', () => {
  it('counts until it has ended, and ends only once', async () => {
    const tables = new SharedTables();
    const first = await startNode(tables, 1, [], { requests: 20 });
    const routes = Array.from({ length: SHARD_COUNT }, (_, shard) => [
      first.coordinator.enter(shard),
      first.coordinator.enter(shard),
    ]);
    for (const [one] of routes) {
      if (one === undefined || !('leave' in one)) continue;
      one.leave();
      one.leave();
    }
    const refused = Promise.withResolvers<void>();
    first.host.mayClose = async (shards) => {
      if (shards.size > 0) refused.reject(new Error('a shard with a request was closed'));
      return true;
    };
    const second = await startNode(tables, 2);
    await eventually(
      () => first.coordinator.enter(0) instanceof Promise || first.coordinator.counts().open < SHARD_COUNT,
    );
    await first.coordinator.refresh();
    refused.resolve();
    await refused.promise;
    expect(second.running.size).toBe(0);
  });
});
