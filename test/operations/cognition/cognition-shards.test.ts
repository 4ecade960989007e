import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { LocalShards } from '../../../src/actors/owned-shards.ts';
import { PLANNER_TIMEOUT_MS } from '../../../src/domain/cognition.ts';
import { SHARD_COUNT, shardOf } from '../../../src/domain/shards.ts';
import type { CognitiveLayer } from '../../../src/operations/cognition/cognition.ts';
import { StoreUnavailable } from '../../../src/store/contract.ts';
import { eventually, testClock } from '../../support/clock.ts';
import {
  type CognitionFixture,
  expectRefusal,
  startCognitionFixture,
  turnOn,
  unwrap,
} from '../../support/cognition-fixture.ts';

let world: CognitionFixture;
let cognition: CognitiveLayer;
let shards: LocalShards;
let shard: Set<number>;
beforeAll(async () => {
  shards = new LocalShards();
  shards.add(Array(SHARD_COUNT).keys());
  world = await startCognitionFixture({ shards });
  cognition = world.service.cognition as CognitiveLayer;
  shard = new Set([shardOf(world.tenant.tenantId)]);
});
afterEach(() => shards.stay(shard));
afterAll(() => world.service.close());

const isIdle = () => shards.operations.whenEnded(shard, testClock(), 0);
const changesOf = (id: string) => world.sidecar.changesOf(id).map(({ type }) => type);

describe('a shard that leaves', () => {
  it('waits for the messages of the sidecar that are being stored, and takes no others', async () => {
    const { proposals } = world.service.services.store;
    const device = await world.addLight();
    const id = await world.observe(device);
    const { change } = proposals;
    const [held, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    proposals.change = async (...given) => {
      reached.resolve();
      await held.promise;
      return change(...given);
    };
    const proposed = cognition.propose(id, turnOn('light', device));
    await reached.promise;
    shards.startLeaving(shard);
    const later = cognition.propose(id, turnOn('later', device));
    expect(await isIdle()).toBe(false);
    held.resolve();
    proposals.change = change;
    unwrap(await proposed);
    expectRefusal(await later, 'NOT_FOUND');
    expect(await isIdle()).toBe(true);
    shards.stay(shard);
    unwrap(await cognition.complete(id, { summary: '' }));
  });

  it('leaves a suspension whose time has come to the node that serves it afterwards', async () => {
    const id = await world.observe(await world.addLight());
    unwrap(await cognition.suspend(id, { reason: 'It dries.', forS: 30 }));
    const { proposals } = world.service.services.store;
    const { find } = proposals;
    let reads = 0;
    proposals.find = async (given) => {
      if (given === id) reads++;
      return find(given);
    };
    shards.startLeaving(shard);
    world.service.clock.advance(31_000);
    await eventually(() => reads === 1 && !world.service.services.locks.isHeld(`context:${id}`));
    proposals.find = find;
    shards.stay(shard);
    expect([reads, changesOf(id)]).toEqual([1, ['opened']]);
    await cognition.openTenants((tenantId) => tenantId === world.tenant.tenantId);
    expect([changesOf(id), (await cognition.context(id))?.phase]).toEqual([['opened', 'opened'], 'thinking']);
    unwrap(await cognition.complete(id, { summary: '' }));
  });

  it('leaves suspensions to its new owner', async () => {
    const id = await world.observe(await world.addLight());
    unwrap(await cognition.suspend(id, { reason: 'It dries.', forS: 30 }));
    const timers = cognition.sizes().cognition_alarms ?? 0;
    cognition.interrupt(await cognition.contextsOf((tenantId) => tenantId === world.tenant.tenantId));
    expect(cognition.sizes().cognition_alarms).toBe(timers - 1);
    unwrap(await cognition.complete(id, { summary: '' }));
  });
});

describe('a shard that comes from another node', () => {
  it('has its contexts sent to the sidecar when the store answers', async () => {
    const id = await world.submitGoal('Light, please.');
    const { plans } = world.service.services.store;
    const { awaitingPlanner } = plans;
    let attempts = 0;
    plans.awaitingPlanner = async (...given) => {
      attempts += 1;
      if (attempts === 1) throw new StoreUnavailable('away');
      return awaitingPlanner(...given);
    };
    await cognition.openTenants((tenantId) => tenantId === world.tenant.tenantId);
    plans.awaitingPlanner = awaitingPlanner;
    expect([attempts, changesOf(id)]).toEqual([2, ['opened', 'opened']]);
    unwrap(await cognition.complete(id, { summary: '' }));
  });

  it('gives the sidecar the whole time to answer for its plans', async () => {
    const { runtime } = world.service;
    await world.advanceClock(2 * PLANNER_TIMEOUT_MS);
    const id = await world.submitGoal('Light, please.');
    await world.advanceClock(PLANNER_TIMEOUT_MS - 10_000);
    await runtime.openShards([...shard]);
    await world.advanceClock(11_000);
    await eventually(async () => (await world.plan(id)).cognition.phase === 'thinking');
    expect((await world.plan(id)).status).toBe('pending');
    await world.advanceClock(PLANNER_TIMEOUT_MS);
    await world.waitForPlan(id, ({ status }) => status === 'failed');
    expect((await world.plan(id)).cognition.error).toMatchObject({ code: 'SIDECAR_UNAVAILABLE' });
  });
});
