import { describe, expect, it } from 'vitest';
import { planDefinition } from '../../src/machines/plan-record.ts';
import { NOTHING } from './machine-driver.ts';
import {
  commandOf,
  create,
  held,
  moved,
  PLAN,
  planned,
  reportStatus,
  requestedSteps,
  statuses,
  stepInput,
} from './plan-fixtures.ts';
import { ofType, requester, T0, TENANT } from './samples.ts';

/** a, then b and c in parallel, then d. */
const diamond = [
  stepInput('a'),
  stepInput('b', { dependsOn: ['a'] }),
  stepInput('c', { dependsOn: ['a'] }),
  stepInput('d', { dependsOn: ['b', 'c'] }),
];

describe('a plan', () => {
  it('is stored completely and requests the steps without dependencies', () => {
    const { plan, begun } = planned([stepInput('a'), stepInput('b'), stepInput('c', { dependsOn: ['a'] })]);
    expect(plan.context).toMatchObject({
      fixed: { id: PLAN, tenantId: TENANT, createdBy: requester, createdAt: T0 },
      live: { status: 'pending' },
    });
    expect(requestedSteps(begun.outputs)).toEqual(['a', 'b']);
    expect(ofType(begun.outputs, 'plan.changed')).toMatchObject([{ planId: PLAN, status: 'pending', stepId: null }]);
    expect(statuses(plan)).toEqual({ a: 'pending', b: 'pending', c: 'pending' });
    expect(plan.value).toEqual({ lifecycle: { open: 'pending' }, clock: 'still', mind: 'none' });
  });

  it('follows its graph, runs independent steps in parallel, and succeeds with its last step', () => {
    const { plan } = planned(diamond);
    expect(requestedSteps(reportStatus(plan, 'a', 'dispatched').outputs)).toEqual([]);
    expect(plan.context.live.status).toBe('running');
    expect(requestedSteps(reportStatus(plan, 'a', 'succeeded').outputs)).toEqual(['b', 'c']);
    expect(requestedSteps(reportStatus(plan, 'c', 'succeeded').outputs)).toEqual([]);
    expect(requestedSteps(reportStatus(plan, 'b', 'succeeded').outputs)).toEqual(['d']);
    const { outputs } = reportStatus(plan, 'd', 'succeeded', { at: T0 + 9_000 });
    expect(plan.context).toMatchObject({ live: { status: 'succeeded', finishedAt: T0 + 9_000 } });
    expect(
      ofType(outputs, 'plan.changed').map(({ stepId, stepStatus, status }) => [stepId, stepStatus, status]),
    ).toEqual([
      ['d', 'succeeded', 'succeeded'],
      [null, null, 'succeeded'],
    ]);
    expect(planDefinition.canPassivate(plan.asSnapshot())).toBe(true);
  });

  it('waits for the acknowledgements of commands that were sent to their devices', () => {
    const { plan } = planned([stepInput('a'), stepInput('b'), stepInput('c')]);
    const awaited = () => planDefinition.expectsMessagesFrom?.(plan.asSnapshot());
    const commands = (...ids: string[]) => ids.map((id) => ({ kind: 'command', id: commandOf(plan, id) }));
    expect(awaited()).toEqual([]);
    reportStatus(plan, 'a', 'dispatched');
    reportStatus(plan, 'b', 'dispatched');
    reportStatus(plan, 'c', 'awaiting_confirmation');
    expect(awaited()).toEqual(commands('a', 'b'));
    reportStatus(plan, 'a', 'succeeded');
    expect(awaited()).toEqual(commands('b'));
  });

  it('waits for the outcome of a compensation', () => {
    const { plan } = planned([stepInput('a', { compensation: { action: 'undo', params: {} } }), stepInput('b')]);
    reportStatus(plan, 'a', 'succeeded');
    reportStatus(plan, 'b', 'failed');
    reportStatus(plan, 'a', 'dispatched');
    expect(plan.context.live.status).toBe('rolling_back');
    expect(planDefinition.expectsMessagesFrom?.(plan.asSnapshot())).toEqual([
      { kind: 'command', id: commandOf(plan, 'a') },
    ]);
  });

  it('waits for the verification of a command that succeeded', () => {
    const { plan } = planned([stepInput('a')]);
    reportStatus(plan, 'a', 'dispatched');
    expect(reportStatus(plan, 'a', 'succeeded', { verification: 'pending' })).toEqual(NOTHING);
    reportStatus(plan, 'a', 'succeeded', { verification: 'unverifiable' });
    expect(plan.context.live.status).toBe('succeeded');
  });

  it('counts each outcome once, and ignores commands of other plans', () => {
    const { plan } = planned([stepInput('a'), stepInput('b')]);
    reportStatus(plan, 'a', 'dispatched');
    expect(reportStatus(plan, 'a', 'dispatched')).toEqual(NOTHING);
    expect(reportStatus(plan, 'a', 'awaiting_confirmation')).toEqual(NOTHING);
    const succeeded = moved(commandOf(plan, 'a'), T0 + 5, 'succeeded');
    plan.send(succeeded);
    expect(plan.send(succeeded)).toEqual(NOTHING);
    expect(plan.send(moved(PLAN, T0 + 6, 'failed'))).toEqual(NOTHING);
  });

  it('requests each step with its own id, the same in each repetition', () => {
    const ids = planned(diamond).plan.context.live.steps.map(({ commandId }) => commandId);
    expect(ids).toEqual(planned(diamond).plan.context.live.steps.map(({ commandId }) => commandId));
    const { plan } = planned([stepInput('a'), stepInput('b')]);
    expect(commandOf(plan, 'a')).not.toBe(commandOf(plan, 'b'));
    expect(commandOf(plan, 'a')).toMatch(/^018bcfe5-6800-7[0-9a-f]{3}-[89ab]/);
  });
});

describe('a step that waits for a confirmation', () => {
  it('delays only the steps that depend on it', () => {
    const { plan } = planned([
      stepInput('a'),
      stepInput('b'),
      stepInput('c', { dependsOn: ['a'] }),
      stepInput('d', { dependsOn: ['b'] }),
    ]);
    reportStatus(plan, 'a', 'awaiting_confirmation');
    expect(plan.context.live.status).toBe('awaiting_confirmation');
    expect(requestedSteps(reportStatus(plan, 'b', 'succeeded').outputs)).toEqual(['d']);
    reportStatus(plan, 'a', 'dispatched');
    expect(plan.context.live.status).toBe('running');
    expect(requestedSteps(reportStatus(plan, 'a', 'succeeded').outputs)).toEqual(['c']);
  });
});

describe('a step under a flag', () => {
  it('waits and is requested again with the same id, any number of times', () => {
    const { plan } = planned([stepInput('a')]);
    const id = commandOf(plan, 'a');
    for (const at of [1, 2]) {
      held(plan, 'a');
      expect(statuses(plan).a).toBe('pending');
      plan.reload();
      const { outputs } = plan.fire();
      expect([at, outputs]).toEqual([at, [{ type: 'plan.ask', planId: PLAN, stepId: 'a', commandId: id }]]);
    }
    reportStatus(plan, 'a', 'succeeded');
    expect([plan.context.live.status, plan.running.size]).toEqual(['succeeded', 0]);
  });

  it('is requested at once when its tenant is resumed', () => {
    const { plan } = planned([stepInput('a')]);
    held(plan, 'a', 60_000);
    expect(requestedSteps(plan.send({ type: 'tenant.resumed', at: T0 + 9 }).outputs)).toEqual(['a']);
    expect(plan.running.size).toBe(0);
    expect(plan.send({ type: 'tenant.resumed', at: T0 + 10 })).toEqual(NOTHING);
  });
});

describe('the record of a plan', () => {
  it('journals changes, and nothing for a message without a change', () => {
    const { plan } = planned(diamond);
    const before = plan.asSnapshot();
    reportStatus(plan, 'a', 'succeeded');
    const event = moved(before.context.live.steps[0]?.commandId ?? '', T0, 'succeeded');
    expect(planDefinition.journal(event, before, plan.asSnapshot())?.data).toEqual({
      ...{ status: 'running', command_id: event.commandId, step_id: 'a', step_status: 'succeeded' },
      ...{ word: 'succeeded', verification: 'verified' },
    });
    expect(planDefinition.journal(create(diamond), null, before)?.data).toEqual({
      ...{ status: 'pending', name: 'A plan', steps: 4, on_failure: 'rollback' },
    });
    expect(planDefinition.journal(event, before, before)).toBeNull();
  });

  it('shows an administrator its steps', () => {
    const { plan } = planned([stepInput('a')]);
    held(plan, 'a');
    expect(planDefinition.toAdminView(plan.context)).toMatchObject({
      ...{ id: PLAN, status: 'pending', created_by: { kind: 'user', id: requester.id } },
      steps: [{ id: 'a', ask: 'held', status: 'pending' }],
    });
  });
});
