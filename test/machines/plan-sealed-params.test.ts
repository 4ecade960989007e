import { describe, expect, it } from 'vitest';
import { planDefinition } from '../../src/machines/plan-record.ts';
import {
  cancel,
  held,
  type Plan,
  planned,
  refused,
  reportStatus,
  statuses,
  stepIn,
  stepInput,
} from './plan-fixtures.ts';

const sealed = (id: string, more: object = {}) => ({
  ...stepInput(id, { compensation: { action: 'turn_off', params: {} } }),
  ...{ sealedParams: `sealed ${id}`, sealedCompensation: `sealed undo ${id}` },
  ...more,
});
const keptBy = (plan: Plan, id: string) => {
  const { sealedParams, sealedCompensation } = stepIn(plan, id);
  return [sealedParams, sealedCompensation];
};

describe('sealed parameters of a step', () => {
  it('are dropped once its command exists, those of the compensation when the plan has ended', () => {
    const { plan } = planned([sealed('a'), sealed('b', { dependsOn: ['a'] })]);
    expect(keptBy(plan, 'a')).toEqual(['sealed a', 'sealed undo a']);
    held(plan, 'a');
    expect(keptBy(plan, 'a')).toEqual(['sealed a', 'sealed undo a']);
    plan.fire();
    reportStatus(plan, 'a', 'dispatched');
    expect(keptBy(plan, 'a')).toEqual([null, 'sealed undo a']);
    reportStatus(plan, 'a', 'succeeded');
    reportStatus(plan, 'b', 'dispatched');
    reportStatus(plan, 'b', 'succeeded');
    expect(plan.context.live.status).toBe('succeeded');
    expect([...keptBy(plan, 'a'), ...keptBy(plan, 'b')]).toEqual([null, null, null, null]);
  });

  it('are kept for the compensation until it has run, and dropped of a step that never ran', () => {
    const { plan } = planned([sealed('a'), sealed('b', { dependsOn: ['a'] }), sealed('c', { dependsOn: ['b'] })]);
    reportStatus(plan, 'a', 'succeeded');
    reportStatus(plan, 'b', 'failed');
    expect(statuses(plan)).toMatchObject({ a: 'compensating', b: 'failed', c: 'skipped' });
    expect(keptBy(plan, 'a')).toEqual([null, 'sealed undo a']);
    expect(keptBy(plan, 'c')).toEqual([null, null]);
    reportStatus(plan, 'a', 'succeeded');
    expect(plan.context.live.status).toBe('rolled_back');
    expect([...keptBy(plan, 'a'), ...keptBy(plan, 'b')]).toEqual([null, null, null, null]);
  });

  it('are dropped when it is refused or the plan is cancelled', () => {
    const { plan } = planned([sealed('a')]);
    refused(plan, 'a');
    expect(keptBy(plan, 'a')).toEqual([null, null]);
    const other = planned([sealed('a'), sealed('b', { dependsOn: ['a'] })]).plan;
    reportStatus(other, 'a', 'dispatched');
    other.send(cancel());
    expect(keptBy(other, 'b')).toEqual([null, null]);
    reportStatus(other, 'a', 'cancelled');
    expect(other.context.live.status).toBe('cancelled');
    expect(keptBy(other, 'a')).toEqual([null, null]);
  });

  it('are not in the view for administrators', () => {
    const { plan } = planned([sealed('a')]);
    expect(JSON.stringify(planDefinition.toAdminView(plan.context))).not.toContain('sealed');
  });
});
