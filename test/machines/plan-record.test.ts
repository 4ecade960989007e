import { describe, expect, it } from 'vitest';
import { PLANNER_TIMEOUT_MS } from '../../src/domain/cognition.ts';
import { planDefinition } from '../../src/machines/plan-record.ts';
import type { PlanEvent } from '../../src/machines/plan-types.ts';
import { complete, GOAL, goal, HOME, type Plan, stepInput } from './plan-fixtures.ts';
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
      status: 'rolled_back',
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
