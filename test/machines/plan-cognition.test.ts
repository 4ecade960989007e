import { describe, expect, it } from 'vitest';
import { CONTEXT_LIFE_MS, type ContextChange, PLANNER_TIMEOUT_MS } from '../../src/domain/cognition.ts';
import type { Output } from '../../src/machines/outputs.ts';
import { planDefinition } from '../../src/machines/plan-record.ts';
import type { PlanEvent, StepInput } from '../../src/machines/plan-types.ts';
import {
  blankPlan,
  commandOf,
  complete,
  create,
  GOAL,
  goal,
  HOME,
  moved,
  PLAN,
  type Plan,
  reportStatus,
  requestedSteps,
  statuses,
  stepIn,
  stepInput,
} from './plan-fixtures.ts';
import { DEVICE, ofType, requester, T0, TENANT, typesOf, uuid } from './samples.ts';

// Plans whose steps are proposed one by one by a planner.

const propose = (plan: Plan, node: StepInput, at = T0 + 100) => plan.send({ type: 'node.proposed', at, node });
const suspend = (plan: Plan, at: number, forMs: number) =>
  plan.send({ type: 'cognition.suspended', at, reason: 'It warms up.', forMs });
const fail = (plan: Plan, at = T0 + 5_000) =>
  plan.send({ type: 'cognition.failed', at, error: { code: 'NO_IDEA', detail: 'No idea.' } });
const changes = (outputs: readonly Output[]): ContextChange[] =>
  ofType(outputs, 'context.changed').map(({ change }) => change);
const refusalOf = (outputs: readonly Output[]) => ofType(outputs, 'refused')[0]?.refusal;
const plannerState = (plan: Plan) => (plan.value as { mind: string }).mind;

describe('a plan with a planner', () => {
  it('has no steps, notifies the planner, and waits a minute for it', () => {
    const { plan, begun } = goal();
    expect(plan.context).toMatchObject({
      live: { status: 'pending', steps: [], cognition: { phase: 'thinking', text: GOAL.text } },
    });
    expect(plan.value).toEqual({ lifecycle: { open: 'pending' }, clock: 'still', mind: 'thinking' });
    expect(changes(begun.outputs)).toEqual([
      { type: 'opened', contextId: PLAN, tenantId: TENANT, homeId: HOME, at: T0 },
    ]);
    expect(begun.timers).toMatchObject([{ delay: PLANNER_TIMEOUT_MS }]);
  });

  it('requests a step when it is proposed, and the next when its dependencies have succeeded', () => {
    const { plan } = goal();
    expect(requestedSteps(propose(plan, stepInput('a')).outputs)).toEqual(['a']);
    expect(requestedSteps(propose(plan, stepInput('b', { dependsOn: ['a'] })).outputs)).toEqual([]);
    expect([statuses(plan), plannerState(plan), plan.running.size]).toEqual([
      { a: 'pending', b: 'pending' },
      'working',
      0,
    ]);
    reportStatus(plan, 'a', 'dispatched');
    expect(plan.context.live.status).toBe('running');
    expect(requestedSteps(reportStatus(plan, 'a', 'succeeded').outputs)).toEqual(['b']);
  });

  it('does not succeed before its planning has ended', () => {
    const { plan } = goal();
    propose(plan, stepInput('a'));
    reportStatus(plan, 'a', 'dispatched');
    reportStatus(plan, 'a', 'succeeded', { at: T0 + 2_000 });
    expect([plan.context.live.status, plannerState(plan)]).toEqual(['running', 'thinking']);
    complete(plan);
    expect(plan.context).toMatchObject({
      live: {
        status: 'succeeded',
        finishedAt: T0 + 5_000,
        cognition: { phase: 'done', summary: 'It is warm.', finalState: { celsius: 21 }, error: null },
      },
    });
    expect([plan.running.size, planDefinition.canPassivate(plan.asSnapshot())]).toEqual([0, true]);
  });

  it('finishes its steps after its planning has ended', () => {
    const { plan } = goal();
    propose(plan, stepInput('a'));
    complete(plan);
    expect([plan.context.live.status, plannerState(plan)]).toEqual(['pending', 'done']);
    reportStatus(plan, 'a', 'succeeded');
    expect(plan.context.live.status).toBe('succeeded');
  });

  it('without steps succeeds', () => {
    const { plan } = goal();
    expect(changes(complete(plan).outputs)).toEqual([]);
    expect(plan.context.live.status).toBe('succeeded');
  });

  it('of an accepted proposal has its steps, and the proposal is accepted with it', () => {
    const plan = blankPlan();
    const accepted = { ...GOAL, kind: 'observation' as const, homeId: HOME, proposalId: uuid(40) };
    const { outputs } = plan.send(create([stepInput('a')], 'rollback', accepted));
    expect(ofType(outputs, 'proposal.accept')).toEqual([
      { type: 'proposal.accept', proposalId: uuid(40), planId: PLAN },
    ]);
    expect([plannerState(plan), plan.context.live.cognition?.phase, requestedSteps(outputs)]).toEqual([
      'none',
      'done',
      ['a'],
    ]);
    expect(refusalOf(propose(plan, stepInput('b')).outputs)?.code).toBe('CONFLICT');
    const sent = changes(reportStatus(plan, 'a', 'dispatched').outputs);
    expect(sent).toMatchObject([{ type: 'node', contextId: uuid(40), nodeId: 'a', from: 'pending', to: 'running' }]);
    reportStatus(plan, 'a', 'succeeded');
    expect(plan.context.live.status).toBe('succeeded');
  });
});

describe('a node', () => {
  it('that is proposed twice is one step; the repetition changes nothing', () => {
    const { plan } = goal();
    const node = stepInput('a', { params: { level: 1 } });
    propose(plan, node);
    const { context } = plan;
    expect(propose(plan, { ...node, params: { level: 1 } })).toEqual({ same: true, outputs: [], timers: [] });
    expect(plan.context).toBe(context);
  });

  it.each<[string, StepInput, string]>([
    ['whose id another node has', stepInput('a', { action: 'turn_off' }), "Another node already has the id 'a'."],
    [
      'that depends on no step of the plan',
      stepInput('b', { dependsOn: ['c'] }),
      'depends_on: "c" is not a step of this plan.',
    ],
    ['that depends on itself', stepInput('b', { dependsOn: ['b'] }), 'depends_on: forms a cycle: b → b.'],
  ])('%s is refused, and nothing changes', (_, node, detail) => {
    const { plan } = goal();
    propose(plan, stepInput('a'));
    const { same, outputs } = propose(plan, node);
    expect([same, typesOf(outputs)]).toEqual([true, ['refused']]);
    expect(refusalOf(outputs)).toEqual({ code: 'VALIDATION_FAILED', detail });
  });

  it('is refused after the hundredth', () => {
    const { plan } = goal();
    for (let n = 0; n < 100; n++) propose(plan, stepInput(`s${n}`));
    const detail = 'A plan can have at most 100 steps.';
    expect(refusalOf(propose(plan, stepInput('more')).outputs)).toEqual({ code: 'VALIDATION_FAILED', detail });
    expect(plan.context.live.steps).toHaveLength(100);
  });

  it.each<[string, (plan: Plan) => void]>([
    ['completed', (plan) => complete(plan)],
    ['was given up by its sidecar', (plan) => fail(plan)],
    ['was cancelled', (plan) => plan.send({ type: 'cancel', at: T0 + 1, by: requester })],
  ])('of a plan that %s is refused', (_, over) => {
    const { plan } = goal();
    over(plan);
    const finished = 'Planning is finished.';
    const events: [PlanEvent, string][] = [
      [{ type: 'node.proposed', at: T0 + 9_000, node: stepInput('a') }, `${finished} No more steps can be added.`],
      [{ type: 'cognition.suspended', at: T0 + 9_000, reason: 'It warms up.', forMs: 1_000 }, finished],
      [{ type: 'cognition.completed', at: T0 + 9_000, summary: '', finalState: null }, finished],
      [{ type: 'cognition.failed', at: T0 + 9_000, error: { code: 'NO_IDEA', detail: 'No idea.' } }, finished],
    ];
    for (const [event, detail] of events) {
      const { same, outputs } = plan.send(event);
      expect([same, outputs.length]).toEqual([true, 1]);
      expect(refusalOf(outputs)).toEqual({ code: 'CONFLICT', detail });
    }
  });

  it('of a plan without a planner is refused as not found', () => {
    const plan = blankPlan();
    plan.send(create([stepInput('a')]));
    const { outputs } = propose(plan, stepInput('b'));
    expect(refusalOf(outputs)).toEqual({ code: 'NOT_FOUND', detail: 'This plan has no planner.' });
  });
});

describe('the planner is notified of', () => {
  it('each change of a node, and the outcome of its command', () => {
    const { plan } = goal();
    const sent = [
      ...changes(propose(plan, stepInput('a')).outputs),
      ...changes(reportStatus(plan, 'a', 'dispatched').outputs),
      ...changes(reportStatus(plan, 'a', 'succeeded', { verification: 'unverifiable' }).outputs),
    ];
    const commandId = commandOf(plan, 'a');
    const about = { contextId: PLAN, tenantId: TENANT, homeId: HOME };
    expect(sent).toEqual([
      { ...about, type: 'node', nodeId: 'a', from: null, to: 'pending', commandId: null, error: null, at: T0 + 100 },
      { ...about, type: 'node', nodeId: 'a', from: 'pending', to: 'running', commandId, error: null, at: T0 + 1_000 },
      {
        ...{ ...about, type: 'outcome', nodeId: 'a', deviceId: DEVICE, commandId, compensation: false, at: T0 + 1_000 },
        ...{ success: true, status: 'succeeded', verification: 'unverifiable', code: null },
      },
      { ...about, type: 'node', nodeId: 'a', from: 'running', to: 'succeeded', commandId, error: null, at: T0 + 1_000 },
    ]);
  });

  it('the reason of a failed node, the preemption of the rest, and the result of the rollback', () => {
    const { plan } = goal();
    propose(plan, stepInput('a'));
    const step = commandOf(plan, 'a');
    const failed = changes(plan.send(moved(step, T0 + 500, 'timed_out', { verification: 'pending' })).outputs);
    expect(failed.map((one) => (one.type === 'node' ? `${one.from} → ${one.to}` : one.type))).toEqual([
      ...['outcome', 'pending → failed', 'interrupted', 'failed → compensating'],
    ]);
    expect(failed[0]).toMatchObject({ success: false, status: 'timed_out', code: 'TIMED_OUT', compensation: false });
    expect(failed[2]).toMatchObject({ reason: 'PREEMPTED' });
    const undo = commandOf(plan, 'a');
    const undone = changes(plan.send(moved(undo, T0 + 900, 'succeeded')).outputs);
    expect(undone).toMatchObject([
      { type: 'outcome', commandId: undo, compensation: true, success: true },
      { type: 'node', from: 'compensating', to: 'compensated' },
    ]);
    expect(plan.context).toMatchObject({ live: { status: 'rolled_back', cognition: { phase: 'done', error: null } } });
  });

  it('its cancellation by a user, once', () => {
    const { plan } = goal();
    const { outputs } = plan.send({ type: 'cancel', at: T0 + 1, by: requester });
    expect(changes(outputs)).toMatchObject([{ type: 'interrupted', reason: 'CANCELLED' }]);
    expect([plan.context.live.status, plan.running.size]).toEqual(['cancelled', 0]);
  });

  it('nothing if the plan has no planner', () => {
    const plan = blankPlan();
    const { outputs } = plan.send(create([stepInput('a')]));
    expect([...changes(outputs), ...changes(reportStatus(plan, 'a', 'failed').outputs)]).toEqual([]);
  });
});

describe('planning that fails', () => {
  it('undoes completed steps, and the plan stores the reason', () => {
    const { plan } = goal();
    propose(plan, stepInput('a'));
    reportStatus(plan, 'a', 'succeeded');
    expect(changes(fail(plan).outputs).map(({ type }) => type)).toEqual(['node']);
    expect(statuses(plan)).toEqual({ a: 'compensating' });
    reportStatus(plan, 'a', 'succeeded');
    expect(plan.context).toMatchObject({
      live: { status: 'rolled_back', cognition: { error: { code: 'NO_IDEA', detail: 'No idea.' } } },
    });
  });

  it('keeps completed steps with the policy stop', () => {
    const { plan } = goal('stop');
    propose(plan, stepInput('a'));
    reportStatus(plan, 'a', 'succeeded');
    fail(plan);
    expect([plan.context.live.status, statuses(plan)]).toEqual(['failed', { a: 'succeeded' }]);
  });

  it('cancels a step that waits for a confirmation', () => {
    const { plan } = goal();
    propose(plan, stepInput('a'));
    reportStatus(plan, 'a', 'awaiting_confirmation');
    expect(ofType(fail(plan).outputs, 'actor.tell')).toMatchObject([{ event: { type: 'plan.withdrawn' } }]);
  });
});

describe('a planner timeout', () => {
  const timedOut = () => {
    const { plan } = goal();
    const { outputs } = plan.fire();
    const [check] = ofType(outputs, 'plan.unheard');
    return { plan, dueAt: check?.dueAt ?? 0 };
  };

  it('of a minute is checked, and decides nothing before the check is answered', () => {
    const { plan, dueAt } = timedOut();
    expect([dueAt, plannerState(plan), plan.context.live.status]).toEqual([
      T0 + PLANNER_TIMEOUT_MS,
      'unheard',
      'pending',
    ]);
    expect(plan.running.size).toBe(0);
  });

  it('without an excuse ends the plan', () => {
    const { plan, dueAt } = timedOut();
    const { outputs } = plan.send({ type: 'cognition.unheard', at: dueAt + 5, dueAt });
    expect(changes(outputs)).toMatchObject([{ type: 'interrupted', reason: 'PREEMPTED' }]);
    expect(plan.context).toMatchObject({
      live: {
        ...{ status: 'failed', finishedAt: dueAt + 5 },
        cognition: { phase: 'done', error: { code: 'SIDECAR_UNAVAILABLE' } },
      },
    });
  });

  it('that is excused can continue, and is checked again', () => {
    const { plan, dueAt } = timedOut();
    plan.send({ type: 'cognition.excused', at: dueAt + 5, dueAt, forMs: 7_000 });
    expect(plannerState(plan)).toBe('thinking');
    expect(ofType(plan.fire().outputs, 'plan.unheard')).toMatchObject([{ dueAt: dueAt + 5 + 7_000 }]);
  });

  it('ends with a message; a later answer of the check is ignored', () => {
    const { plan, dueAt } = timedOut();
    propose(plan, stepInput('a'), dueAt + 1);
    expect(plannerState(plan)).toBe('working');
    expect(plan.send({ type: 'cognition.unheard', at: dueAt + 5, dueAt }).same).toBe(true);
    reportStatus(plan, 'a', 'succeeded', { at: dueAt + 10 });
    expect(plan.send({ type: 'cognition.unheard', at: dueAt + 15, dueAt }).same).toBe(true);
    expect([...plan.running.values()]).toMatchObject([{ dueAt: dueAt + 10 + PLANNER_TIMEOUT_MS }]);
  });

  it('is not counted while a step is running, waits for a confirmation, or is deferred by a flag', () => {
    const { plan } = goal();
    propose(plan, stepInput('a'));
    expect(plan.running.size).toBe(0);
    reportStatus(plan, 'a', 'awaiting_confirmation');
    expect(plan.running.size).toBe(0);
    const held = goal().plan;
    propose(held, stepInput('a'));
    held.send({ type: 'step.held', at: T0 + 200, stepId: 'a', commandId: commandOf(held, 'a'), forMs: 5_000 });
    expect([plannerState(held), [...held.running.keys()].every((id) => id.includes('clock'))]).toEqual([
      'working',
      true,
    ]);
  });
});

describe('a suspension of planning', () => {
  it('lasts for its duration, and then the planner is notified again', () => {
    const { plan } = goal();
    suspend(plan, T0 + 100, 9_000);
    expect([plannerState(plan), plan.context.live.status]).toEqual(['suspended', 'pending']);
    const { outputs } = plan.fire();
    expect(changes(outputs)).toMatchObject([{ type: 'opened', at: T0 + 9_100 }]);
    expect([plannerState(plan), [...plan.running.values()]]).toMatchObject([
      'thinking',
      [{ dueAt: T0 + 9_100 + PLANNER_TIMEOUT_MS }],
    ]);
  });

  it('ends with the next message', () => {
    const { plan } = goal();
    suspend(plan, T0 + 100, 9_000);
    propose(plan, stepInput('a'));
    expect([plannerState(plan), plan.running.size]).toEqual(['working', 0]);
  });

  it('can be repeated, for longer or shorter', () => {
    const { plan } = goal();
    suspend(plan, T0 + 100, 9_000);
    suspend(plan, T0 + 200, 1_000);
    expect([...plan.running.values()].map(({ dueAt }) => dueAt)).toEqual([T0 + 1_200]);
  });

  it('continues while steps run, without changing their timers', () => {
    const { plan } = goal();
    propose(plan, stepInput('a'));
    suspend(plan, T0 + 100, 9_000);
    reportStatus(plan, 'a', 'dispatched');
    expect(stepIn(plan, 'a').status).toBe('running');
    plan.fire();
    expect([plannerState(plan), plan.running.size]).toEqual(['working', 0]);
  });

  it('cannot last for more than a day', () => {
    const { plan } = goal();
    for (let at = T0; at < T0 + CONTEXT_LIFE_MS; at += 3_600_000) suspend(plan, at, 3_600_000);
    suspend(plan, T0 + CONTEXT_LIFE_MS - 1_000, 3_600_000);
    expect([...plan.running.values()].map(({ dueAt }) => dueAt)).toEqual([T0 + CONTEXT_LIFE_MS]);
    plan.fire();
    expect(refusalOf(suspend(plan, T0 + CONTEXT_LIFE_MS, 1_000).outputs)?.code).toBe('CONFLICT');
    expect(plannerState(plan)).toBe('thinking');
  });
});
