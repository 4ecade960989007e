import { describe, expect, it } from 'vitest';
import { PLANNER_TIMEOUT_MS } from '../../src/domain/cognition.ts';
import { planDefinition } from '../../src/machines/plan-record.ts';
import type { PlanEvent } from '../../src/machines/plan-types.ts';
import {
  blankPlan,
  cancel,
  commandOf,
  complete,
  create,
  GOAL,
  goal,
  HOME,
  moved,
  type Plan,
  planned,
  stepIn,
  stepInput,
} from './plan-fixtures.ts';
import { T0 } from './samples.ts';

describe('the record of a plan with a planner', () => {
  const note = (event: PlanEvent, act: (plan: Plan) => void = () => {}) => {
    const { plan } = goal();
    act(plan);
    const before = plan.asSnapshot();
    plan.send(event);
    return planDefinition.journal(event, before, plan.asSnapshot())?.data;
  };

  it('journals each planner message', () => {
    expect(note({ type: 'node.proposed', at: T0, node: stepInput('a') })).toMatchObject({
      step_id: 'a',
      action: 'turn_on',
    });
    expect(note({ type: 'cognition.suspended', at: T0, reason: 'It warms up.', forMs: 9_000 })).toMatchObject({
      reason: 'It warms up.',
      for_s: 9,
    });
    expect(note({ type: 'cognition.completed', at: T0, summary: 'Warm.', finalState: null })).toMatchObject({
      status: 'succeeded',
      summary: 'Warm.',
    });
    expect(note({ type: 'cognition.failed', at: T0, error: { code: 'NO_IDEA', detail: '' } })).toMatchObject({
      status: 'failed',
      code: 'NO_IDEA',
    });
  });

  it('shows an administrator the state of planning and its deadline', () => {
    const { plan } = goal();
    expect(planDefinition.toAdminView(plan.context).cognition).toMatchObject({
      ...{ kind: 'goal', text: GOAL.text, home_id: HOME, phase: 'thinking', error: null },
      due_at: new Date(T0 + PLANNER_TIMEOUT_MS).toISOString(),
    });
  });

  it('has a column for plans that wait for the planner', () => {
    const { plan } = goal();
    expect(planDefinition.columns(plan.asSnapshot())).toMatchObject({ thought: true, over: false });
    complete(plan);
    expect(planDefinition.columns(plan.asSnapshot())).toMatchObject({ thought: false, over: true });
  });
});

describe('the record of a plan with steps', () => {
  const dataOf = (event: PlanEvent, plan: Plan) =>
    planDefinition.journal(event, blankPlan().asSnapshot(), plan.asSnapshot())?.data;

  it('journals the creation and the cancellation, and nothing if the plan is unchanged', () => {
    const { plan } = planned([stepInput('a'), stepInput('b')]);
    const steps = [stepInput('a'), stepInput('b')];
    expect(dataOf(create(steps), plan)).toEqual({
      ...{ status: plan.context.live.status, name: 'A plan', steps: 2, on_failure: 'rollback' },
    });
    expect(dataOf(cancel(), plan)).toEqual({ status: plan.context.live.status });
    expect(dataOf({ ...cancel(), reason: 'Enough.' }, plan)).toMatchObject({ reason: 'Enough.' });
    const snapshot = plan.asSnapshot();
    expect(planDefinition.journal(cancel(), snapshot, snapshot)).toBeNull();
  });

  it('journals what happens to a step with its command, its id and its status', () => {
    const { plan } = planned([stepInput('a'), stepInput('b')]);
    const commandId = commandOf(plan, 'b');
    const found = { command_id: commandId, step_id: 'b', step_status: stepIn(plan, 'b').status };
    const { status } = plan.context.live;
    expect(dataOf(moved(commandId, T0, 'dispatched'), plan)).toEqual({
      ...{ status, ...found, word: 'dispatched', verification: expect.any(String) },
    });
    const step = { at: T0, stepId: 'b', commandId };
    const error = { code: 'FORBIDDEN_ROLE', detail: 'Not permitted.' };
    expect(dataOf({ type: 'step.refused', ...step, error }, plan)).toEqual({ status, ...found, code: error.code });
    expect(dataOf({ type: 'step.held', ...step, forMs: 5_000 }, plan)).toEqual({ status, ...found, held_s: 5 });
    const unknown = dataOf(moved('no command of the plan', T0, 'failed'), plan);
    expect(unknown).toMatchObject({ status, command_id: 'no command of the plan' });
    expect(unknown).not.toHaveProperty('step_id');
  });

  it('journals only the status for messages of its tenant', () => {
    const { plan } = planned([stepInput('a')]);
    for (const type of ['tenant.suspended', 'tenant.resumed'] as const)
      expect(dataOf({ type, at: T0 } as PlanEvent, plan)).toEqual({ status: plan.context.live.status });
  });
});
