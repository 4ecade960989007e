import { afterEach, describe, expect, it } from 'vitest';
import { SHARD_COUNT, type ShardRoute } from '../../src/domain/shards.ts';
import { eventLoopTurns, eventually } from '../support/clock.ts';
import {
  assertExclusive,
  SharedTables,
  startNode,
  stopCoordinators,
  type TestNode,
  total,
} from '../support/shared-tables.ts';

afterEach(stopCoordinators);

describe('a node that joins', () => {
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

  it('gets the shard of a request that does not end last, after some attempts', async () => {
    const tables = new SharedTables();
    const all: TestNode[] = [];
    const first = await startNode(tables, 1, all, { requests: 20 });
    const routes = Array.from({ length: SHARD_COUNT }, (_, shard) => first.coordinator.enter(shard));
    for (const [shard, route] of routes.entries()) if (shard % 32 !== 0 && 'leave' in route) route.leave();
    const second = await startNode(tables, 2, all);
    const kept = (shard: number) => shard % 32 === 0;
    const order: number[] = [];
    await eventually(() => {
      order.push(...[...second.running].filter((shard) => !order.includes(shard)));
      return order.filter((shard) => !kept(shard)).length > 50 && order.some(kept) && total(all) === SHARD_COUNT;
    });
    expect(kept(order[0] as number)).toBe(false);
    assertExclusive(all);
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
