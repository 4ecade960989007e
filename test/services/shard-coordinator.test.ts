import { afterEach, describe, expect, it, vi } from 'vitest';
import { SHARD_COUNT } from '../../src/domain/shards.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { makeNode, SharedTables, startNode, stopCoordinators, type TestNode, total } from '../support/shared-tables.ts';

afterEach(() => {
  stopCoordinators();
  vi.useRealTimers();
});

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

describe('a node that is alone', () => {
  const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);

  /** A node with the product's intervals that has opened all shards, and the number of its readings since then. */
  async function startAlone() {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const tables = new SharedTables();
    const node = await startNode(tables, 1, [], { poll: 250, alone: 2_000 });
    await pass(2_000);
    const readings = { count: 0 };
    tables.afterView = async (self) => {
      if (self === node.self) readings.count += 1;
    };
    return { tables, node, readings };
  }

  it('reads nodes and owners every two seconds', async () => {
    const { readings } = await startAlone();
    await pass(20_000);
    expect(readings.count).toBe(10);
  });

  it('reads at once when another node joins, and four times a second while that one is registered', async () => {
    const { tables, node, readings } = await startAlone();
    const other = await startNode(tables, 2);
    await pass(0);
    expect(readings.count).toBeGreaterThan(0);
    expect([...node.coordinator.liveNodes]).toEqual([node.self, other.self]);
    await other.coordinator.stop();
    readings.count = 0;
    await pass(10_000);
    expect(readings.count).toBeGreaterThanOrEqual(40);
  });

  it('reads a node that has announced nothing after two seconds', async () => {
    const { tables, node } = await startAlone();
    const other = makeNode(tables, 2);
    await pass(2_000);
    expect([...node.coordinator.liveNodes]).toEqual([node.self, other.self]);
  });

  it('tries again after a quarter of a second if it could not read', async () => {
    const { tables, node, readings } = await startAlone();
    await pass(2_000);
    tables.unavailable = true;
    await node.coordinator.refresh();
    tables.unavailable = false;
    readings.count = 0;
    await pass(250);
    expect(readings.count).toBe(1);
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

describe('nodes of builds with different data levels', () => {
  const newer = { dataLevel: 2 };

  it('share the shards; those that a newer one has owned stay with newer ones', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const old = await startNode(tables, 1, all);
    const first = await startNode(tables, 2, all, newer);
    await eventually(() => first.running.size > 50 && total(all) === SHARD_COUNT);
    const moved = new Set(first.running);
    const second = await startNode(tables, 3, all, newer);
    await eventually(() => second.running.size > 50 && total(all) === SHARD_COUNT);
    expect([...old.running].filter((shard) => moved.has(shard))).toEqual([]);
    tables.kill(first);
    first.running.clear();
    await eventually(() => total([old, second]) === SHARD_COUNT);
    expect([...old.running].filter((shard) => moved.has(shard))).toEqual([]);
    expect(old.coordinator.shardsUnreadable).toBe(0);
  });

  it('leave a shard without an owner if no live one can read it, until one starts', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const old = await startNode(tables, 1, all, { route: 30 });
    const first = await startNode(tables, 2, all, newer);
    await eventually(() => first.running.size > 50 && total(all) === SHARD_COUNT);
    const unreadable = tables.levels.filter((level) => level === 2).length;
    const [shard] = [...first.running] as [number];
    tables.kill(first);
    first.running.clear();
    await eventually(() => old.coordinator.shardsUnreadable === unreadable);
    expect(await old.coordinator.enter(shard)).toEqual({ at: 'none' });
    expect(old.coordinator.shardsNotOpen).toBe(unreadable);
    expect(old.running.size).toBe(SHARD_COUNT - unreadable);
    const second = await startNode(tables, 3, all, newer);
    await eventually(() => total([old, second]) === SHARD_COUNT);
    await eventually(() => old.coordinator.shardsUnreadable === 0);
    expect(second.running.has(shard)).toBe(true);
  });

  it('end at once if no other one can run the shards', async () => {
    const tables = new SharedTables();
    await startNode(tables, 1, []);
    const first = await startNode(tables, 2, [], newer);
    await eventually(() => first.running.size > 50 && first.coordinator.counts().open === first.running.size);
    const kept = first.running.size;
    // A test would end before this time.
    await first.coordinator.drain(600_000);
    expect(first.running.size).toBe(kept);
  });

  it('keep a shard at a newer one that an operator drains, if no active one can read it', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const old = await startNode(tables, 1, all);
    const first = await startNode(tables, 2, all, newer);
    await eventually(() => first.running.size > 50 && total(all) === SHARD_COUNT);
    const kept = new Set(first.running);
    tables.setState(first.self, 'draining');
    await eventually(() => old.coordinator.drainingNodes === 1);
    await first.coordinator.refresh();
    expect(first.running).toEqual(kept);
    expect(old.coordinator.shardsNotOpen).toBe(0);
  });
});
