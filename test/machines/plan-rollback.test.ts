import { describe, expect, it } from 'vitest';
import type { CommandStatus, VerificationStatus } from '../../src/domain/command.ts';
import { NOTHING } from './machine-driver.ts';
import {
  cancel,
  commandOf,
  held,
  moved,
  type Plan,
  planned,
  refused,
  reportStatus,
  requestedSteps,
  statuses,
  stepIn,
  stepInput,
  withdrawn,
} from './plan-fixtures.ts';
import { ofType, T0, typesOf } from './samples.ts';

const failures: [CommandStatus, VerificationStatus, boolean, string][] = [
  ['rejected', 'unverifiable', false, 'ACTION_NOT_IN_MANIFEST'],
  ['failed', 'unverifiable', false, 'FAILED'],
  ['expired', 'unverifiable', false, 'EXPIRED'],
  ['cancelled', 'unverifiable', false, 'CANCELLED'],
  ['timed_out', 'pending', true, 'TIMED_OUT'],
  ['succeeded', 'mismatched', true, 'STATE_MISMATCHED'],
  ['succeeded', 'timed_out', true, 'STATE_NOT_REPORTED'],
];

describe('a step that fails', () => {
  it.each(failures)('by %s and %s is undone itself: %s', (status, verification, undone, code) => {
    const { plan } = planned([stepInput('a'), stepInput('b', { dependsOn: ['a'] })]);
    const refusal = status === 'rejected' ? { code: 'ACTION_NOT_IN_MANIFEST' as const, detail: 'No.' } : null;
    const { outputs } = plan.send(moved(commandOf(plan, 'a'), T0 + 5, status, { verification, refusal }));
    expect(stepIn(plan, 'a')).toMatchObject({ status: undone ? 'compensating' : 'failed', error: { code } });
    expect(statuses(plan).b).toBe('skipped');
    expect(requestedSteps(outputs)).toEqual(undone ? ['a'] : []);
    expect(plan.context.live.status).toBe(undone ? 'rolling_back' : 'failed');
  });

  it('starts no further step, lets running ones finish, and undoes in reverse order of completion', () => {
    const { plan } = planned([
      stepInput('a'),
      stepInput('b'),
      stepInput('c'),
      stepInput('d'),
      stepInput('e', { dependsOn: ['b'] }),
    ]);
    for (const id of ['a', 'b', 'c', 'd']) reportStatus(plan, id, 'dispatched');
    reportStatus(plan, 'c', 'succeeded');
    expect(typesOf(reportStatus(plan, 'd', 'failed').outputs)).not.toContain('plan.ask');
    expect([plan.context.live.status, statuses(plan).e]).toEqual(['rolling_back', 'skipped']);
    expect(requestedSteps(reportStatus(plan, 'a', 'succeeded').outputs)).toEqual([]);
    expect(requestedSteps(reportStatus(plan, 'b', 'timed_out').outputs)).toEqual(['b']);
    reportStatus(plan, 'b', 'dispatched');
    expect(requestedSteps(reportStatus(plan, 'b', 'succeeded').outputs)).toEqual(['a']);
    expect(requestedSteps(reportStatus(plan, 'a', 'succeeded').outputs)).toEqual(['c']);
    reportStatus(plan, 'c', 'succeeded');
    expect(plan.context.live.status).toBe('rolled_back');
    expect(statuses(plan)).toEqual({ a: 'compensated', b: 'compensated', c: 'compensated', d: 'failed', e: 'skipped' });
  });

  it('skips steps without a compensation', () => {
    const { plan } = planned([stepInput('a', { compensation: null }), stepInput('b')]);
    reportStatus(plan, 'a', 'succeeded');
    reportStatus(plan, 'b', 'failed');
    expect([plan.context.live.status, statuses(plan).a]).toEqual(['rolled_back', 'succeeded']);
  });

  it('with `stop` undoes nothing, and the plan fails when running steps have finished', () => {
    const { plan } = planned([stepInput('a'), stepInput('b'), stepInput('c', { dependsOn: ['a'] })], 'stop');
    reportStatus(plan, 'b', 'dispatched');
    reportStatus(plan, 'a', 'failed');
    expect([plan.context.live.status, plan.value]).toMatchObject(['running', { lifecycle: { open: 'stopping' } }]);
    expect(reportStatus(plan, 'b', 'succeeded').outputs).toHaveLength(2);
    expect([plan.context.live.status, statuses(plan)]).toEqual([
      'failed',
      { a: 'failed', b: 'succeeded', c: 'skipped' },
    ]);
  });

  it('with `stop` still allows a user to cancel the plan while a step is running', () => {
    const { plan } = planned([stepInput('a'), stepInput('b'), stepInput('c')], 'stop');
    reportStatus(plan, 'c', 'succeeded');
    reportStatus(plan, 'b', 'dispatched');
    reportStatus(plan, 'a', 'failed');
    const { outputs } = plan.send(cancel());
    expect(ofType(outputs, 'actor.tell')).toMatchObject([{ to: { id: commandOf(plan, 'b') } }]);
    expect(plan.context.live.status).toBe('rolling_back');
    expect(requestedSteps(reportStatus(plan, 'b', 'cancelled').outputs)).toEqual(['c']);
    reportStatus(plan, 'c', 'succeeded');
    expect([plan.context.live.status, statuses(plan)]).toEqual([
      'cancelled',
      { a: 'failed', b: 'skipped', c: 'compensated' },
    ]);
  });

  it('is unchanged by a late acknowledgement', () => {
    const { plan } = planned([stepInput('a'), stepInput('b')]);
    const late = commandOf(plan, 'a');
    reportStatus(plan, 'b', 'dispatched');
    reportStatus(plan, 'a', 'timed_out');
    expect(plan.send(moved(late, T0 + 10, 'succeeded'))).toEqual(NOTHING);
    reportStatus(plan, 'b', 'failed');
    expect(plan.send(moved(late, T0 + 20, 'succeeded'))).toEqual(NOTHING);
    reportStatus(plan, 'a', 'succeeded');
    expect(plan.send(moved(late, T0 + 30, 'failed'))).toEqual(NOTHING);
    expect([plan.context.live.status, statuses(plan).a]).toEqual(['rolled_back', 'compensated']);
  });

  it('cancels steps that wait in the inbox', () => {
    const { plan } = planned([stepInput('a'), stepInput('b')]);
    reportStatus(plan, 'a', 'awaiting_confirmation');
    expect(reportStatus(plan, 'b', 'failed').outputs).toContainEqual(withdrawn(plan, 'a'));
    reportStatus(plan, 'a', 'cancelled');
    expect([plan.context.live.status, statuses(plan).a]).toEqual(['failed', 'skipped']);
  });

  it('because its command could not be created has no command', () => {
    const { plan } = planned([stepInput('a'), stepInput('b', { dependsOn: ['a'] })]);
    refused(plan, 'a', 'UNAUTHENTICATED');
    expect(stepIn(plan, 'a')).toMatchObject({ status: 'failed', commandId: null, error: { code: 'UNAUTHENTICATED' } });
    expect(plan.context.live.status).toBe('failed');
  });
});

describe('a plan that is cancelled', () => {
  it('cancels what it can, lets the rest finish, and undoes completed steps', () => {
    const { plan } = planned([stepInput('a'), stepInput('b'), stepInput('c'), stepInput('d', { dependsOn: ['a'] })]);
    reportStatus(plan, 'a', 'succeeded');
    reportStatus(plan, 'b', 'dispatched');
    const { outputs } = plan.send(cancel());
    expect(outputs).toContainEqual(withdrawn(plan, 'b'));
    expect(outputs).not.toContainEqual(withdrawn(plan, 'c'));
    expect(plan.context.live.status).toBe('rolling_back');
    // Their commands were created in the meantime.
    expect(reportStatus(plan, 'c', 'dispatched').outputs).toContainEqual(withdrawn(plan, 'c'));
    expect(reportStatus(plan, 'd', 'awaiting_confirmation').outputs).toContainEqual(withdrawn(plan, 'd'));
    reportStatus(plan, 'c', 'cancelled');
    reportStatus(plan, 'd', 'cancelled');
    expect(plan.send(cancel())).toEqual(NOTHING);
    expect(requestedSteps(reportStatus(plan, 'b', 'succeeded').outputs)).toEqual(['b']);
    expect(requestedSteps(reportStatus(plan, 'b', 'succeeded').outputs)).toEqual(['a']);
    reportStatus(plan, 'a', 'succeeded');
    expect([plan.context.live.status, statuses(plan)]).toEqual([
      'cancelled',
      { a: 'compensated', b: 'compensated', c: 'skipped', d: 'skipped' },
    ]);
    expect(plan.send(cancel()).outputs).toMatchObject([{ type: 'refused', refusal: { code: 'ILLEGAL_TRANSITION' } }]);
  });

  it('before any step had an effect is cancelled with its last outcome', () => {
    const { plan } = planned([stepInput('a')]);
    held(plan, 'a');
    plan.send(cancel());
    expect([plan.context.live.status, statuses(plan).a, plan.running.size]).toEqual(['cancelled', 'skipped', 0]);
  });

  it('skips requested steps whose commands were not created', () => {
    const { plan } = planned([stepInput('a')]);
    plan.send(cancel());
    refused(plan, 'a', 'CONFLICT');
    expect([plan.context.live.status, statuses(plan).a]).toEqual(['cancelled', 'skipped']);
  });
});

describe('a step that a suspension cancelled', () => {
  const suspend = (plan: Plan) => plan.send({ type: 'tenant.suspended', at: T0 + 100 });
  it.each(['expired', 'timed_out'] as const)('by %s ends the plan as with the policy stop', (status) => {
    const { plan } = planned([stepInput('a'), stepInput('b'), stepInput('c'), stepInput('d', { dependsOn: ['a'] })]);
    reportStatus(plan, 'c', 'succeeded');
    reportStatus(plan, 'a', 'dispatched');
    reportStatus(plan, 'b', 'dispatched');
    suspend(plan);
    reportStatus(plan, 'a', status);
    reportStatus(plan, 'b', 'succeeded');
    expect([plan.context.live.status, statuses(plan)]).toEqual([
      'failed',
      { a: 'failed', b: 'succeeded', c: 'succeeded', d: 'skipped' },
    ]);
  });

  it('does not include a step that failed by itself', () => {
    const { plan } = planned([stepInput('a'), stepInput('b')]);
    reportStatus(plan, 'b', 'succeeded');
    reportStatus(plan, 'a', 'dispatched');
    suspend(plan);
    expect(requestedSteps(reportStatus(plan, 'a', 'failed').outputs)).toEqual(['b']);
  });

  it('does not include a step that was confirmed after it', () => {
    const { plan } = planned([stepInput('a'), stepInput('b')]);
    reportStatus(plan, 'b', 'succeeded');
    reportStatus(plan, 'a', 'awaiting_confirmation');
    suspend(plan);
    reportStatus(plan, 'a', 'dispatched');
    expect(requestedSteps(reportStatus(plan, 'a', 'timed_out').outputs)).toEqual(['a']);
    expect(plan.context.live.status).toBe('rolling_back');
  });

  it('also ends a plan during its rollback', () => {
    const { plan } = planned([stepInput('a'), stepInput('b'), stepInput('c')]);
    for (const id of ['a', 'b']) reportStatus(plan, id, 'dispatched');
    reportStatus(plan, 'c', 'succeeded');
    suspend(plan);
    reportStatus(plan, 'a', 'failed');
    expect(plan.context.live.status).toBe('rolling_back');
    reportStatus(plan, 'b', 'timed_out');
    expect([plan.context.live.status, statuses(plan).c]).toEqual(['failed', 'succeeded']);
  });

  it('does not count as an attempt of a compensation, which continues when the tenant is resumed', () => {
    const { plan } = planned([stepInput('a'), stepInput('b')]);
    reportStatus(plan, 'a', 'succeeded');
    reportStatus(plan, 'b', 'failed');
    reportStatus(plan, 'a', 'dispatched');
    suspend(plan);
    reportStatus(plan, 'a', 'timed_out');
    plan.fire();
    expect(stepIn(plan, 'a').undo?.tries).toBe(1);
  });
});

describe('a compensation that fails', () => {
  const undoing = () => {
    const { plan } = planned([
      stepInput('a'),
      stepInput('b', { dependsOn: ['a'] }),
      stepInput('x'),
      stepInput('c', { dependsOn: ['b'] }),
    ]);
    for (const id of ['a', 'x', 'b']) reportStatus(plan, id, 'succeeded');
    reportStatus(plan, 'c', 'failed');
    return plan;
  };

  it('is retried after 1, 5 and 25 seconds, each time as a new command', () => {
    const plan = undoing();
    const ids = new Set<string>();
    let at = T0 + 10_000;
    for (const wait of [1_000, 5_000, 25_000]) {
      ids.add(commandOf(plan, 'b'));
      reportStatus(plan, 'b', 'failed', { at });
      expect([...plan.running.values()].map(({ dueAt }) => dueAt)).toEqual([at + wait]);
      plan.reload();
      at += wait;
      expect(requestedSteps(plan.fire().outputs)).toEqual(['b']);
    }
    ids.add(commandOf(plan, 'b'));
    expect(ids.size).toBe(4);
    expect(stepIn(plan, 'b').undoError?.code).toBe('FAILED');
    reportStatus(plan, 'b', 'succeeded', { at });
    expect(stepIn(plan, 'b').undoError).toBeNull();
    expect(statuses(plan)).toMatchObject({ b: 'compensated', x: 'compensating' });
  });

  it('is given up then, with the steps it depends on; the rest is undone', () => {
    const plan = undoing();
    for (let n = 0; n < 4; n++) {
      refused(plan, 'b');
      if (n < 3) plan.fire();
    }
    expect(statuses(plan)).toEqual({
      a: 'compensation_failed',
      b: 'compensation_failed',
      x: 'compensating',
      c: 'failed',
    });
    reportStatus(plan, 'x', 'succeeded');
    expect(plan.context.live.status).toBe('rollback_failed');
    expect([stepIn(plan, 'a').undoError, stepIn(plan, 'b').undoError]).toMatchObject([
      { code: 'NOT_COMPENSATED' },
      { code: 'FORBIDDEN_ROLE' },
    ]);
  });

  it.each([
    ['a critical one that its device may have got', 'timed_out', true, false],
    ['a critical one that never left', 'expired', true, true],
    ['one that somebody said no to', 'cancelled', false, false],
    ['any other', 'timed_out', false, true],
  ] as const)('%s (%s) is repeated: %4$s', (_, status, critical, again) => {
    const plan = undoing();
    reportStatus(plan, 'b', status, { critical });
    expect(stepIn(plan, 'b').ask).toBe(again ? 'pausing' : null);
    expect(stepIn(plan, 'b').status).toBe(again ? 'compensating' : 'compensation_failed');
  });
});
