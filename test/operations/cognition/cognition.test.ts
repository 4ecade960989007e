import { v7 } from 'uuid';
import { beforeAll, describe, expect, it } from 'vitest';
import { PLANNER_TIMEOUT_MS } from '../../../src/domain/cognition.ts';
import type { Proposal } from '../../../src/domain/proposal.ts';
import { CognitiveLayer } from '../../../src/operations/cognition/cognition.ts';
import { CommitUnknown, StoreUnavailable } from '../../../src/store/contract.ts';
import { eventLoopTurns, eventually } from '../../support/clock.ts';
import { expectRefusal, turnOn, unwrap } from '../../support/cognition-fixture.ts';
import type { CallResult } from '../../support/http-service.ts';
import { slow } from '../../support/slow.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';
import {
  cognition,
  gathered,
  kindsOf,
  stateOf,
  suspended,
  switchedOff,
  withCognition,
  world,
} from './cognition-requests.ts';

withCognition();

describe('a context that waits for a sidecar', () => {
  it('contains everything that a sidecar without a memory needs', async () => {
    const device = await world.addLight();
    const goal = await world.submitGoal('Light, please.', { home_id: world.tenant.homeId });
    unwrap(await cognition.propose(goal, turnOn('light', device, { timeout_s: 9 })));
    const command = await world.waitForStepCommand(goal, 'light');
    await world.executeCommand(device, command, true);
    await world.waitForPlan(goal, ({ steps: [step] }) => step.status === 'succeeded');
    const observation = await world.observe(device, { context: 'Dusk' });
    const mine = await gathered(world.tenant.tenantId);
    expect(mine.find(({ id }) => id === goal)).toEqual({
      ...{ id: goal, kind: 'goal', tenantId: world.tenant.tenantId, homeId: world.tenant.homeId, deviceId: null },
      ...{ text: 'Light, please.', action: null, data: null, note: null, phase: 'thinking' },
      createdAt: expect.any(Number),
      nodes: [
        {
          ...{ id: 'light', deviceId: device, action: 'turn_on', params: {}, dependsOn: [], timeoutS: 9, error: null },
          ...{ compensation: { action: 'turn_off', params: {} }, status: 'succeeded', commandId: command },
        },
      ],
    });
    expect(mine.find(({ id }) => id === observation)).toMatchObject({
      ...{ kind: 'observation', deviceId: device, data: { humidity: 81 }, note: 'Dusk', phase: 'thinking', nodes: [] },
    });
    expect(await cognition.context(goal)).toEqual(mine.find(({ id }) => id === goal));
    expect((await gathered(world.otherTenant.tenantId)).length).toBe(0);
    const all = (await gathered()).map(({ id }) => id);
    expect(all).toEqual(expect.arrayContaining([goal, observation]));
    unwrap(await cognition.complete(goal, { summary: '' }));
    unwrap(await cognition.complete(observation, { summary: '' }));
    expect(await cognition.context(goal)).toBeNull();
    expect((await gathered()).map(({ id }) => id)).not.toContain(goal);
    expect(await cognition.context(v7())).toBeNull();
  });

  it('is interrupted while its tenant is suspended, accepts no messages, and is opened again afterwards', async () => {
    const [goal, observation] = [await world.submitGoal('Light, please.'), await world.observe(await world.addLight())];
    await suspended(async () => {
      await eventually(() => kindsOf(goal).includes('interrupted SUSPENDED'));
      await eventually(() => kindsOf(observation).includes('interrupted SUSPENDED'));
      for (const id of [goal, observation]) {
        expectRefusal(await cognition.complete(id, { summary: '' }), 'TENANT_SUSPENDED');
        expect(await cognition.context(id)).toBeNull();
      }
      expect([await gathered(world.tenant.tenantId), (await gathered()).map(({ id }) => id)]).toEqual([
        [],
        expect.not.arrayContaining([goal, observation]),
      ]);
    });
    for (const id of [goal, observation]) {
      await eventually(() => kindsOf(id).length === 3);
      expect(kindsOf(id)).toEqual(['opened', 'interrupted SUSPENDED', 'opened']);
      unwrap(await cognition.complete(id, { summary: '' }));
    }
  });

  it('is interrupted under the flag in the same way', async () => {
    const goal = await world.submitGoal('Light, please.');
    await switchedOff(async () => {
      await eventually(() => kindsOf(goal).includes('interrupted SUSPENDED'));
      expectRefusal(await cognition.complete(goal, { summary: '' }), 'COGNITION_DISABLED');
      expect([await cognition.context(goal), await gathered()]).toEqual([null, []]);
    });
    await eventually(() => kindsOf(goal).length === 3);
    expect(kindsOf(goal)).toEqual(['opened', 'interrupted SUSPENDED', 'opened']);
    unwrap(await cognition.complete(goal, { summary: '' }));
  });

  it('is opened again when the store answers, if it did not when the suspension ended', async () => {
    const goal = await world.submitGoal('Light, please.');
    const { plans } = world.service.services.store;
    const { awaitingPlanner } = plans;
    let failures = 0;
    await switchedOff(async () => {
      await eventually(() => kindsOf(goal).length === 2);
      plans.awaitingPlanner = async () => {
        plans.awaitingPlanner = awaitingPlanner;
        failures += 1;
        throw new StoreUnavailable('away');
      };
    });
    await eventually(() => kindsOf(goal).length === 3);
    expect([failures, kindsOf(goal)]).toEqual([1, ['opened', 'interrupted SUSPENDED', 'opened']]);
    unwrap(await cognition.complete(goal, { summary: '' }));
  });

  it('gets no interruption that is outdated because the context was opened again before it was sent', async () => {
    const goal = await world.submitGoal('Light, please.');
    const { plans } = world.service.services.store;
    const { awaitingPlanner } = plans;
    let go = () => {};
    const held = new Promise<void>((resolve) => {
      go = resolve;
    });
    let read: Promise<unknown> | undefined;
    plans.awaitingPlanner = (...requested) => {
      plans.awaitingPlanner = awaitingPlanner;
      const reading = held.then(() => awaitingPlanner.apply(plans, requested));
      read = reading;
      return reading;
    };
    await switchedOff(async () => {});
    await eventually(() => kindsOf(goal).length === 2);
    go();
    await read;
    await eventLoopTurns();
    expect(kindsOf(goal)).toEqual(['opened', 'opened']);
    unwrap(await cognition.complete(goal, { summary: '' }));
  });
});

describe('an observation', () => {
  it('is opened also if the outcome of its commit is unknown, and a repeated request gets the answer', async () => {
    const device_id = await world.addLight();
    const { proposals } = world.service.store;
    const { insert } = proposals;
    proposals.insert = async (...given) => {
      await insert(...given);
      throw new CommitUnknown('connection lost');
    };
    const send = () =>
      world.tenant.call(
        'POST',
        '/cognition/observation',
        { device_id, data: {} },
        { headers: { 'idempotency-key': 'o' } },
      );
    expect((await send()).status).toBe(503);
    proposals.insert = insert;
    const { status, body } = await send();
    expect([status, kindsOf(body.proposal_id)]).toEqual([202, ['opened']]);
    expect(await cognition.context(body.proposal_id)).toMatchObject({ phase: 'thinking' });
    unwrap(await cognition.complete(body.proposal_id, { summary: '' }));
  });
});

describe('the contexts of tenants that move to another node', () => {
  it('are those of these tenants alone, and are interrupted once the tenants have left', async () => {
    const goal = await world.submitGoal('Light, please.');
    const layer = cognition as CognitiveLayer;
    const { tenantId } = world.tenant;
    expect((await layer.contextsOf((id) => id !== tenantId)).map(({ id }) => id)).not.toContain(goal);
    const contexts = (await layer.contextsOf((id) => id === tenantId)).filter(({ id }) => id === goal);
    expect(contexts).toHaveLength(1);
    expect(kindsOf(goal)).not.toContain('interrupted SUSPENDED');
    layer.interrupt(contexts);
    await eventually(() => kindsOf(goal).includes('interrupted SUSPENDED'));
    unwrap(await cognition.complete(goal, { summary: '' }));
  });

  it('are not read while no sidecar is connected', async () => {
    const { services } = world.service;
    const { connected } = services.sidecar;
    services.sidecar.connected = () => false;
    expect(await (cognition as CognitiveLayer).contextsOf(() => true)).toEqual([]);
    services.sidecar.connected = connected;
  });
});

describe('a sidecar that sends nothing', () => {
  it('for a minute fails the plan, which gives the reason', async () => {
    const id = await world.submitGoal('Light, please.');
    await world.advanceClock(PLANNER_TIMEOUT_MS + 1_000);
    const plan = await world.waitForPlan(id, ({ status }) => status === 'failed');
    expect(plan.cognition).toMatchObject({ phase: 'done', error: { code: 'SIDECAR_UNAVAILABLE' } });
    expect(kindsOf(id)).toEqual(['opened', 'interrupted PREEMPTED']);
  });

  it('is excused while cognition is off, and has a minute afterwards', async () => {
    const id = await world.submitGoal('Light, please.');
    await switchedOff(async () => {
      await world.advanceClock(PLANNER_TIMEOUT_MS + 1_000);
      await eventually(async () => (await stateOf(id)).includes('mind.thinking'));
      expect((await world.plan(id)).status).toBe('pending');
    });
    await world.advanceClock(PLANNER_TIMEOUT_MS / 2);
    expect((await world.plan(id)).status).toBe('pending');
    unwrap(await cognition.complete(id, { summary: '' }));
  });
});

describe('a suspension of thinking', () => {
  it('of a goal ends at its time, and the goal is opened again', async () => {
    const id = await world.submitGoal('Light, please.');
    unwrap(await cognition.suspend(id, { reason: 'It warms up.', forS: 30 }));
    expect(await cognition.context(id)).toMatchObject({ phase: 'suspended' });
    expect((await world.plan(id)).cognition).toMatchObject({ phase: 'suspended', reason: 'It warms up.' });
    await world.advanceClock(31_000);
    await eventually(() => kindsOf(id).length === 2);
    expect((await world.plan(id)).cognition).not.toHaveProperty('reason');
    expect([kindsOf(id), (await cognition.context(id))?.phase]).toEqual([['opened', 'opened'], 'thinking']);
    unwrap(await cognition.complete(id, { summary: '' }));
  });

  it('of an observation ends at its time, and the observation is opened again', slow, async () => {
    const id = await world.observe(await world.addLight());
    unwrap(await cognition.suspend(id, { reason: 'It dries.', forS: 30 }));
    expect(await cognition.context(id)).toMatchObject({ phase: 'suspended' });
    world.service.clock.advance(31_000);
    await eventually(async () => (await world.service.store.proposals.find(id))?.phase === 'thinking');
    await eventually(() => kindsOf(id).length >= 2);
    expect([new Set(kindsOf(id)), (await cognition.context(id))?.phase]).toEqual([new Set(['opened']), 'thinking']);
    unwrap(await cognition.complete(id, { summary: '' }));
  });

  it('of an observation that is suspended again while its end is stored lasts', async () => {
    const { proposals } = world.service.services.store;
    const id = await world.observe(await world.addLight());
    unwrap(await cognition.suspend(id, { reason: 'It dries.', forS: 30 }));
    const { change } = proposals;
    const [held, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    proposals.change = async (...given) => {
      proposals.change = change;
      reached.resolve();
      await held.promise;
      return change(...given);
    };
    world.service.clock.advance(31_000);
    await reached.promise;
    expect(world.service.services.locks.isHeld(`context:${id}`)).toBe(true);
    const again = cognition.suspend(id, { reason: 'It still dries.', forS: 30 });
    held.resolve();
    unwrap(await again);
    expect((await world.service.store.proposals.find(id))?.phase).toBe('suspended');
    expect((await cognition.context(id))?.phase).toBe('suspended');
    unwrap(await cognition.complete(id, { summary: '' }));
  });

  it('of an observation ends later if the store does not answer at its time', async () => {
    const { proposals } = world.service.services.store;
    const id = await world.observe(await world.addLight());
    unwrap(await cognition.suspend(id, { reason: 'It dries.', forS: 30 }));
    const { find, change } = proposals;
    const failed: string[] = [];
    proposals.find = async (...given) => {
      if (given[0] !== id || failed.includes('read')) return find(...given);
      failed.push('read');
      throw new StoreUnavailable('away');
    };
    proposals.change = async (...given) => {
      const changed = await change(...given);
      if (given[0] !== id || failed.includes('write')) return changed;
      failed.push('write');
      throw new CommitUnknown('connection lost');
    };
    world.service.clock.advance(31_000);
    await eventually(() => failed.length === 1);
    await eventually(() => {
      world.service.clock.advance(1_000);
      return failed.length === 2;
    });
    expect(kindsOf(id)).toEqual(['opened']);
    await eventually(() => {
      world.service.clock.advance(1_000);
      return kindsOf(id).length === 2;
    });
    Object.assign(proposals, { find, change });
    expect([kindsOf(id), (await cognition.context(id))?.phase]).toEqual([['opened', 'opened'], 'thinking']);
    unwrap(await cognition.complete(id, { summary: '' }));
  });

  it('of an observation ends when the service restarts', async () => {
    const id = await world.observe(await world.addLight());
    unwrap(await cognition.suspend(id, { reason: 'It dries.' }));
    const restarted = new CognitiveLayer(world.service.services, { subscribe: () => () => {} });
    expect(await restarted.context(id)).toMatchObject({ phase: 'thinking' });
    const phases: string[] = [];
    for await (const one of restarted.active(world.tenant.tenantId)) if (one.id === id) phases.push(one.phase);
    expect(phases).toEqual(['thinking']);
    restarted.close();
    unwrap(await cognition.complete(id, { summary: '' }));
  });

  it('of an observation that is dropped for newer ones ends permanently', async () => {
    const { store, clock } = world.service;
    const device = await world.addLight();
    const id = await world.observe(device);
    unwrap(await cognition.propose(id, turnOn('light', device)));
    unwrap(await cognition.suspend(id, { reason: 'It dries.', forS: 30 }));
    const one = await store.proposals.find(id);
    for (let count = 0; count < 199; count++) {
      const newer = { id: v7(), createdAt: clock.now() + 1, phase: 'thinking', steps: [] } as const;
      await store.proposals.insert({ ...(one as Proposal), ...newer }, 1_000, '');
    }
    clock.advance(2);
    await world.observe(device);
    expect(kindsOf(id).at(-1)).toBe('interrupted PREEMPTED');
    clock.advance(31_000);
    expectRefusal(await cognition.propose(id, turnOn('more', device)), 'CONFLICT');
    await eventually(async () => (await store.proposals.find(id))?.phase === 'done');
    expect(await world.proposal(id)).toMatchObject({ status: 'refused', steps: [] });
    expect((await world.tenant.call('POST', `/cognition/proposals/${id}/accept`, {})).status).toBe(409);
  });

  it.each([0, -1, 3_601, Number.NaN, Number.POSITIVE_INFINITY])('cannot last %s seconds', async (forS) => {
    const id = await world.submitGoal('Light, please.');
    expectRefusal(await cognition.suspend(id, { reason: '', forS }), 'VALIDATION_FAILED');
    unwrap(await cognition.complete(id, { summary: '' }));
  });
});

// Goals and observations accept the same messages.
describe('a message of the sidecar', () => {
  it('about an unknown context is refused', async () => {
    const { body } = await world.tenant.call('POST', '/plans', { steps: [turnOn('a', await world.addLight())] });
    for (const id of [body.plan.id, v7(), 'x', '']) {
      expectRefusal(await cognition.complete(id, { summary: '' }), 'NOT_FOUND');
      expectRefusal(await cognition.propose(id, turnOn('b', await world.addLight())), 'NOT_FOUND');
    }
  });

  it('is stored as readable text of limited length', async () => {
    const id = await world.submitGoal('Light, please.');
    const detail = `No\u0000\u{e0041} idea\ud800.\n${'x'.repeat(5_000)}`;
    unwrap(await cognition.fail(id, { code: 'no idea; drop table plans', detail }));
    const { error } = (await world.plan(id)).cognition;
    expect(error.code).toBe('SIDECAR_ERROR');
    expect(error.detail).toMatch(/^No idea\ufffd\.\nx+$/);
    expect(error.detail.length).toBe(1_000);
  });

  it('with a large final state is refused', async () => {
    const id = await world.submitGoal('Light, please.');
    const finalState = { text: 'x'.repeat(20_000) };
    expectRefusal(await cognition.complete(id, { summary: '', finalState }), 'VALIDATION_FAILED');
    unwrap(await cognition.complete(id, { summary: '', finalState: { on: true } }));
    expect((await world.plan(id)).cognition).toMatchObject({ phase: 'done', final_state: { on: true } });
  });
});

describe('the authority of a step', () => {
  it('is that of the requester: a member who left has none', async () => {
    const token = await world.service.member(world.tenant.tenantId, 'user');
    const id = await world.submitGoal('Light, please.', {}, { token });
    const me = (await world.tenant.call('GET', '/auth/me', undefined, { token })).body.user.id;
    await world.service.updateUser(me, { role: 'viewer' });
    expectRefusal(await cognition.propose(id, turnOn('a', await world.addLight())), 'FORBIDDEN_ROLE');
  });

  it('never confirms a critical command: that waits in the inbox', async () => {
    const { device_id: lock } = await world.tenant.register({ device_type: 'smart_lock' });
    await world.tenant.connect(lock);
    const id = await world.submitGoal('Open the door.');
    unwrap(await cognition.propose(id, { id: 'open', device_id: lock, action: 'unlock' }));
    const { steps } = await world.waitForPlan(id, ({ status }) => status === 'awaiting_confirmation');
    const { confirmations } = (await world.tenant.call('GET', '/confirmations')).body;
    expect(confirmations).toMatchObject([{ command_id: steps[0].command_id, plan_id: id }]);
    unwrap(await cognition.complete(id, { summary: 'Open.' }));
    expect((await world.plan(id)).status).toBe('awaiting_confirmation');
    await world.tenant.call('POST', `/confirmations/${steps[0].command_id}/approve`);
    await world.waitForStepCommand(id, 'open');
  });
});

describe('a step that fails', () => {
  it('preempts the rest, and completed steps are undone', async () => {
    const [a, b] = [await world.addLight(), await world.addLight()];
    const id = await world.submitGoal('Light, please.');
    unwrap(await cognition.propose(id, turnOn('a', a)));
    await world.executeCommand(a, await world.waitForStepCommand(id, 'a'), true);
    unwrap(await cognition.propose(id, turnOn('b', b, { depends_on: ['a'] })));
    await world.tenant.acknowledge(b, await world.waitForStepCommand(id, 'b'), 'failed');
    await world.waitForPlan(id, ({ status }) => status === 'rolling_back');
    expect(kindsOf(id)).toContain('interrupted PREEMPTED');
    expectRefusal(await cognition.propose(id, turnOn('c', a)), 'CONFLICT');
    expect(world.sidecar.changesOf(id)).toContainEqual(
      expect.objectContaining({ type: 'outcome', nodeId: 'b', success: false, status: 'failed', code: 'FAILED' }),
    );
  });
});

describe('open goals', () => {
  const request = (tenancy: TestTenant) =>
    tenancy.call('POST', '/intent', { type: 'goal', payload: { text: 'Light, please.' } });
  const answers: CallResult[] = [];
  let crowd: TestTenant;
  // In a hook, because of its longer time limit: 520 goals take seconds.
  beforeAll(async () => {
    crowd = await makeTestTenant(world.service);
    for (let round = 0; round < 26; round++) {
      answers.push(...(await Promise.all(Array.from({ length: 20 }, () => request(crowd)))));
    }
  });

  it('are limited for one tenant, without affecting other tenants', async () => {
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.map(({ status, body }) => [status, body.code])).toEqual(
      Array.from({ length: 20 }, () => [409, 'CONFLICT']),
    );
    const { device_id } = await crowd.register();
    expect((await crowd.call('POST', `/devices/${device_id}/command`, { goal: 'Dim it.' })).status).toBe(409);
    expect((await request(world.otherTenant)).status).toBe(200);
    unwrap(await cognition.complete(answers[0]?.body.plan_id, { summary: '' }));
    expect((await request(crowd)).status).toBe(200);
  });
});
