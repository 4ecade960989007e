import { describe, expect, it } from 'vitest';
import { planDefinition } from '../../src/machines/plan-record.ts';
import type { StepInput } from '../../src/machines/plan-types.ts';
import { phaseOf } from '../../src/machines/plan-update.ts';
import { fc, runs } from '../support/properties.ts';
import { slow } from '../support/slow.ts';
import { gone, type Walk, World, walks } from './plan-random-walk.ts';
import { declaredStates, untaken, walkUntil } from './random-walk.ts';

const holds = (property: (walk: Walk) => void) => fc.assert(fc.property(walks, property), runs(100));
const stepOf = ({ steps }: Walk, id: string): StepInput => steps.find((step) => step.id === id) as StepInput;

describe('for random events of a plan', () => {
  it('every transition of its chart is taken', slow, () => {
    expect(untaken(planDefinition, { walks, most: 2_500, go: gone })).toEqual([]);
  });

  it('every state of its chart is reached', () => {
    const seen = new Set(['lifecycle.unregistered']);
    const states = declaredStates(planDefinition);
    walkUntil(
      walks,
      2_500,
      (walk) => {
        for (const state of gone(walk).seen) seen.add(state);
      },
      () => seen.size === states.length,
    );
    expect([...seen].sort()).toEqual(states.sort());
  });

  it('it ends in the final state that follows from its commands and its users', () => {
    holds((walk) => {
      const { plan, cancelled, failed, lost, undone } = gone(walk);
      const { status, steps } = plan.context.live;
      const last = new Map(undone.map(({ stepId, won }) => [stepId, won]));
      const allUndone = [...last.values()].every((won) => won);
      const stopped = lost || (failed && !cancelled && walk.onFailure === 'stop');
      const rolled = cancelled ? 'cancelled' : steps.some(({ acted }) => acted) ? 'rolled_back' : 'failed';
      if (!cancelled && !failed) expect(status).toBe('succeeded');
      else if (stopped) expect(status).toBe('failed');
      else expect(status).toBe(allUndone ? rolled : 'rollback_failed');
      expect(
        steps.some((step) => ['pending', 'running', 'awaiting_confirmation', 'compensating'].includes(step.status)),
      ).toBe(false);
      expect([plan.running.size, phaseOf(plan.context)]).toEqual([0, status]);
    });
  });

  it('a step is requested once, when all its dependencies have succeeded, and none after the plan began to end', () => {
    holds((walk) => {
      let requests = 0;
      let ending = false;
      gone(walk, (world) => {
        const first = requests;
        requests = world.requested.length;
        for (const [n, { stepId, commandId }] of world.requested.entries()) {
          if (n < first) continue;
          const step = world.plan.context.live.steps.find(({ id }) => id === stepId);
          if (step?.commandId !== commandId) continue;
          const earlier = world.requested
            .slice(0, n)
            .filter((one) => one.stepId === stepId && one.commandId !== commandId);
          expect([earlier, ending]).toEqual([[], false]);
          for (const other of stepOf(walk, stepId).dependsOn) {
            expect(world.ended.some(({ stepId: id, won }) => id === other && won)).toBe(true);
          }
        }
        ending = world.plan.context.live.ending !== null;
      });
    });
  });

  it('exactly the completed steps are undone, one by one in reverse order, and none with the policy stop', () => {
    holds((walk) => {
      const { plan, requested, ended, starts } = gone(walk);
      expect(new Set(starts).size).toBe(starts.length);
      const { status, steps } = plan.context.live;
      const begun = requested.flatMap(({ stepId, commandId }) =>
        steps.some((step) => step.id === stepId && step.commandId === commandId) ? [] : [stepId],
      );
      const tried = begun.filter(
        (id, n) => begun.indexOf(id) === n && steps.find((one) => one.id === id)?.undo !== null,
      );
      if (status === 'succeeded' || status === 'failed') {
        expect(tried).toEqual([]);
        return;
      }
      const due = ended.filter(({ stepId, acted }) => acted && stepOf(walk, stepId).compensation !== null).reverse();
      const left = new Set(steps.filter(({ undoError }) => undoError?.code === 'NOT_COMPENSATED').map(({ id }) => id));
      expect(tried).toEqual(due.map(({ stepId }) => stepId).filter((id) => !left.has(id)));
      for (const { stepId } of due) {
        const { status: now } = steps.find(({ id }) => id === stepId) as { status: string };
        expect(['compensated', 'compensation_failed']).toContain(now);
      }
    });
  });

  it('the steps not undone are those that failed compensations depend on', () => {
    holds((walk) => {
      const { steps } = gone(walk).plan.context.live;
      const standsOn = (id: string): string[] => {
        const { dependsOn } = stepOf(walk, id);
        return [...dependsOn, ...dependsOn.flatMap(standsOn)];
      };
      const failed = steps.filter(
        ({ status, undoError }) => status === 'compensation_failed' && undoError?.code !== 'NOT_COMPENSATED',
      );
      for (const { id } of steps.filter(({ undoError }) => undoError?.code === 'NOT_COMPENSATED')) {
        expect(failed.some((step) => standsOn(step.id).includes(id))).toBe(true);
      }
      for (const { id } of failed) {
        for (const below of steps.filter((one) => standsOn(id).includes(one.id) && one.acted && one.compensation)) {
          expect(below.status).toBe('compensation_failed');
        }
      }
    });
  });

  it('a plan with a planner has each proposed step once, and ends no sooner than the planning', () => {
    holds((walk) => {
      if (!walk.goal) return;
      const { plan, proposed, sentChanges, completed, gaveUp, commands } = gone(walk);
      const over = new Set([...commands.values()].filter((command) => command.over));
      const { steps, status, cognition } = plan.context.live;
      expect(steps.map(({ id }) => id)).toEqual(proposed.map(({ id }) => id));
      if (status === 'succeeded') expect(completed).toBe(true);
      expect([cognition?.phase, cognition?.dueAt, plan.value]).toMatchObject(['done', null, { mind: 'done' }]);
      // A planner that ended its context itself gets no interrupt.
      const interrupted = sentChanges.filter((type) => type === 'interrupted').length;
      expect(interrupted).toBe(completed || gaveUp ? 0 : 1);
      expect(sentChanges.filter((type) => type === 'outcome')).toHaveLength(over.size);
    });
  });

  it('it behaves the same after it was stored and loaded', () => {
    holds((walk) => {
      gone(walk, ({ plan }) => {
        const { value, context } = plan;
        plan.reload();
        expect([plan.value, plan.context]).toEqual([value, context]);
      });
    });
  });

  it('its status follows from its steps', () => {
    holds((walk) => {
      const world = new World(walk);
      for (const one of walk.moves) {
        world.step(one);
        const { context } = world.plan;
        const phase = phaseOf(context);
        expect(context.live.status).toBe(phase === 'stopping' ? 'running' : phase);
      }
    });
  });
});
