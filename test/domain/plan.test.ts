import { describe, expect, it } from 'vitest';
import { commandStatuses, verificationStatuses } from '../../src/domain/command.ts';
import { derivedId } from '../../src/domain/derived-id.ts';
import {
  graphErrors,
  isFinalPlanStatus,
  outcomeOf,
  planStatuses,
  stepPhaseOf,
  stepStatuses,
} from '../../src/domain/plan.ts';
import { expectReached, fc } from '../support/properties.ts';

const step = (id: string, ...depends_on: string[]) => ({ id, depends_on });

describe('the graph of a plan', () => {
  it('can be any acyclic graph, in any order', () => {
    const graphs = fc
      .array(fc.array(fc.nat(19), { maxLength: 4 }), { minLength: 1, maxLength: 20 })
      .map((nodes) => nodes.map((before, n) => step(`${n}`, ...before.filter((other) => other < n).map(String))))
      .chain((steps) => fc.shuffledSubarray(steps, { minLength: steps.length }));
    fc.assert(
      fc.property(graphs, (steps) => {
        expect(graphErrors(steps)).toEqual([]);
      }),
    );
  });

  it('with a cycle is refused with one of the cycles, in which each step depends on the next', () => {
    const graphs = fc
      .array(fc.array(fc.nat(7), { maxLength: 3 }), { minLength: 8, maxLength: 8 })
      .map((nodes) => nodes.map((before, n) => step(`${n}`, ...before.map(String))));
    let found = 0;
    fc.assert(
      fc.property(graphs, (steps) => {
        const [error] = graphErrors(steps);
        if (error === undefined) return;
        found += 1;
        const cycle = error.message.replace('forms a cycle: ', '').split(' → ');
        expect(cycle[0]).toBe(cycle.at(-1));
        for (const [n, id] of cycle.slice(0, -1).entries()) {
          expect(steps.find((one) => one.id === id)?.depends_on).toContain(cycle[n + 1]);
        }
      }),
    );
    expectReached(() => expect(found).toBeGreaterThan(0));
  });

  it('names its faults by their position', () => {
    expect(graphErrors([step('a'), step('a'), step('b', '__proto__')])).toEqual([
      { path: 'steps.1.id', message: 'duplicates the id of an earlier step' },
      { path: 'steps.2.depends_on', message: '"__proto__" is not a step of this plan' },
    ]);
    expect(graphErrors([step('a', 'a')])).toEqual([{ path: 'steps.0.depends_on', message: 'forms a cycle: a → a' }]);
  });
});

describe('the outcome of a command for its plan', () => {
  it('is final when the command ended and its verification is decided', () => {
    const words = commandStatuses.map((status) => [
      status,
      new Set(verificationStatuses.map((verification) => outcomeOf(status, verification))),
    ]);
    expect(Object.fromEntries(words)).toEqual({
      submitted: new Set(['in_progress']),
      dispatched: new Set(['in_progress']),
      acknowledged: new Set(['in_progress']),
      in_progress: new Set(['in_progress']),
      awaiting_confirmation: new Set(['waiting']),
      succeeded: new Set(['in_progress', 'succeeded', 'failed']),
      ...Object.fromEntries(
        ['rejected', 'failed', 'timed_out', 'expired', 'cancelled'].map((status) => [status, new Set(['failed'])]),
      ),
    });
    expect([
      outcomeOf('succeeded', 'pending'),
      outcomeOf('succeeded', 'mismatched'),
      outcomeOf('succeeded', 'timed_out'),
    ]).toEqual([...['in_progress', 'failed', 'failed']]);
  });
});

describe('the statuses of a plan and its steps', () => {
  it('are final as in the contract', () => {
    expect(planStatuses.filter(isFinalPlanStatus)).toEqual([
      ...['succeeded', 'failed', 'rolled_back', 'rollback_failed', 'cancelled'],
    ]);
    expect(Object.groupBy(stepStatuses, stepPhaseOf)).toEqual({
      pending: ['pending'],
      active: ['running', 'compensating'],
      confirming: ['awaiting_confirmation'],
      final: ['succeeded', 'failed', 'skipped', 'compensated', 'compensation_failed'],
    });
  });
});

describe('a derived id', () => {
  it('is a UUID version 7 of its time, the same for the same names, different for others', () => {
    const at = Date.UTC(2026, 0, 1);
    fc.assert(
      fc.property(fc.string(), fc.nat(9), (name, n) => {
        const id = derivedId(at, name, n);
        expect(id).toMatch(/^019b76da-a800-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(derivedId(at, name, n)).toBe(id);
        expect(
          new Set([id, derivedId(at, name, n + 1), derivedId(at, `${name}x`, n), derivedId(at + 1, name, n)]).size,
        ).toBe(4);
      }),
    );
    expect(derivedId(at, 'a', 'bc')).not.toBe(derivedId(at, 'ab', 'c'));
  });
});
