import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CommandStatus, VerificationStatus } from '../../src/domain/command.ts';
import { mayHaveActed, type OnFailure, wordOf } from '../../src/domain/plan.ts';
import type { Output } from '../../src/machines/outputs.ts';
import { phaseOf } from '../../src/machines/plan-decisions.ts';
import { isOver, planDefinition } from '../../src/machines/plan-record.ts';
import type { PlanEvent, StepWish } from '../../src/machines/plan-types.ts';
import { blankPlan, create, moved, type Plan, statuses, wish } from './plan-world.ts';
import { asker, ofType, T0 } from './samples.ts';
import { declaredStates, statesIn, untaken } from './walks.ts';

// The plan among commands, flags, suspensions and restarts as they come. What it should come to is reckoned beside it, from
// what its commands did alone.

interface Command {
  id: string;
  stepId: string;
  undoes: boolean;
  /** What it is to say, the next word first; empty: nothing has been decided yet. */
  said: CommandStatus[];
  critical: boolean;
  over: boolean;
}
interface Ask {
  stepId: string;
  commandId: string;
}

type Ending = [CommandStatus, VerificationStatus];
const endings: Ending[] = [
  ['succeeded', 'verified'],
  ['succeeded', 'unverifiable'],
  ['succeeded', 'mismatched'],
  ['succeeded', 'timed_out'],
  ['failed', 'unverifiable'],
  ['rejected', 'unverifiable'],
  ['expired', 'unverifiable'],
  ['timed_out', 'pending'],
];

/** The numbers choose among what is possible at that moment. */
type Move = {
  kind: 'ask' | 'word' | 'end' | 'repeat' | 'timer' | 'reload' | 'cancel' | 'suspend' | 'resume';
  pick: number;
};

const graphs: fc.Arbitrary<StepWish[]> = fc
  .array(fc.record({ before: fc.array(fc.nat(7), { maxLength: 3 }), compensated: fc.boolean() }), {
    minLength: 1,
    maxLength: 8,
  })
  .map((nodes) =>
    nodes.map(({ before, compensated }, n) =>
      wish(`s${n}`, {
        dependsOn: [...new Set(before.filter((other) => other < n).map((other) => `s${other}`))],
        ...(!compensated && { compensation: null }),
      }),
    ),
  )
  .chain((steps) => fc.shuffledSubarray(steps, { minLength: steps.length }));

const move = (kind: Move['kind'], weight: number) => ({
  weight,
  arbitrary: fc.nat(1_000).map((pick): Move => ({ kind, pick })),
});
const walks = fc.record({
  steps: graphs,
  onFailure: fc.constantFrom<OnFailure>('rollback', 'stop'),
  /** How often an ending is a success, in ten. */
  luck: fc.constantFrom(2, 7, 9, 10),
  moves: fc.array(
    fc.oneof(
      ...[move('ask', 12), move('word', 8), move('end', 12), move('repeat', 3), move('timer', 3), move('reload', 3)],
      ...[move('cancel', 2), move('suspend', 1), move('resume', 1)],
    ),
    { maxLength: 80 },
  ),
});
type Walk = typeof walks extends fc.Arbitrary<infer T> ? T : never;

class World {
  readonly plan: Plan = blankPlan();
  readonly commands = new Map<string, Command>();
  asks: Ask[] = [];
  /** Every ask, in order. */
  readonly asked: Ask[] = [];
  readonly events: PlanEvent[] = [];
  /** Steps in the order of their ends, with what their device may have done. */
  readonly ended: { stepId: string; acted: boolean; won: boolean }[] = [];
  readonly undone: { stepId: string; won: boolean }[] = [];
  readonly seen = new Set<string>();
  readonly starts: string[] = [];
  cancelled = false;
  failed = false;
  lost = false;
  suspended = false;
  readonly parked = new Set<string>();
  at = T0;
  private readonly walk: Walk;

  constructor(walk: Walk) {
    this.walk = walk;
    this.send(create(walk.steps, walk.onFailure));
  }

  send(event: PlanEvent | { type: `xstate.after.${string}`; at: number }): void {
    const { outputs } = this.plan.send(event as PlanEvent);
    this.take(outputs);
  }

  fire(): void {
    if (this.plan.running.size === 0) return;
    this.at = Math.max(this.at, ...[...this.plan.running.values()].map(({ dueAt }) => dueAt));
    this.take(this.plan.fire().outputs);
  }

  private take(outputs: readonly Output[]): void {
    for (const { stepId, commandId } of ofType(outputs, 'plan.ask')) {
      this.asks.push({ stepId, commandId });
      this.asked.push({ stepId, commandId });
    }
    for (const { to } of ofType(outputs, 'actor.tell')) {
      const command = this.commands.get(to.id);
      // Written already, or not: it may come too late.
      if (command && !command.over && !command.said.includes('in_progress')) command.said.push('cancelled');
    }
    for (const state of statesIn(this.plan.value as never)) this.seen.add(state);
  }

  step({ kind, pick }: Move): void {
    this.at += 1 + (pick % 40);
    switch (kind) {
      case 'ask':
        this.answerAsk(pick);
        break;
      case 'word':
      case 'end':
        this.speak(pick, kind === 'end');
        break;
      case 'repeat':
        this.repeat(pick);
        break;
      case 'timer':
        this.fire();
        break;
      case 'reload':
        this.plan.reload();
        break;
      case 'cancel':
        if (
          !isOver(this.plan.asSnapshot()) &&
          ['running', 'pending', 'awaiting_confirmation'].includes(this.plan.context.status)
        ) {
          this.cancelled = true;
          this.lost = false;
        }
        this.send({ type: 'cancel', at: this.at, by: asker });
        break;
      case 'suspend':
        for (const { commandId } of this.asks) this.parked.add(commandId);
        for (const command of this.commands.values()) if (!command.over) this.parked.add(command.id);
        this.suspended = true;
        this.send({ type: 'tenant.suspended', at: this.at });
        break;
      case 'resume':
        this.suspended = false;
        this.send({ type: 'tenant.resumed', at: this.at });
    }
  }

  private answerAsk(pick: number): void {
    const [ask] = this.asks.splice(pick % Math.max(1, this.asks.length), 1);
    if (ask === undefined) return;
    const { stepId, commandId } = ask;
    const step = this.plan.context.steps.find(({ id }) => id === stepId);
    const undoes = step?.undo?.commandId === commandId;
    const refuses = !undoes && this.plan.context.ending !== null;
    if (!refuses && (this.suspended || pick % 7 === 0)) {
      this.parked.delete(commandId);
      this.send({ type: 'step.held', at: this.at, stepId, commandId, forMs: 5_000 });
    } else if (refuses || pick % 11 === 0) {
      if (!undoes && !refuses) {
        this.ended.push({ stepId, acted: false, won: false });
        this.failed = true;
      }
      if (undoes) this.undone.push({ stepId, won: false });
      this.send({
        type: 'step.refused',
        at: this.at,
        stepId,
        commandId,
        error: { code: 'FORBIDDEN_ROLE', detail: '' },
      });
    } else {
      expect(this.commands.has(commandId)).toBe(false);
      if (!undoes) this.starts.push(stepId);
      this.commands.set(commandId, { id: commandId, stepId, undoes, said: [], critical: pick % 5 === 0, over: false });
      this.word(commandId, pick % 4 === 0 ? 'awaiting_confirmation' : 'dispatched', 'pending');
    }
  }

  private speak(pick: number, ends: boolean): void {
    const open = [...this.commands.values()].filter(({ over }) => !over);
    const command = open[pick % Math.max(1, open.length)];
    if (command === undefined) return;
    if (command.said.includes('cancelled')) {
      this.word(command.id, 'cancelled', 'unverifiable');
      return;
    }
    if (!ends) {
      // Confirmed, which nobody can under a suspension.
      if (statuses(this.plan)[command.stepId] === 'awaiting_confirmation') this.parked.delete(command.id);
      command.said.push('in_progress');
      this.word(command.id, 'dispatched', 'pending');
      return;
    }
    const wins = pick % 10 < this.walk.luck;
    const [status, verification] = (wins ? endings[pick % 2] : endings[2 + (pick % 6)]) as Ending;
    this.word(command.id, status, verification);
  }

  private word(commandId: string, status: CommandStatus, verification: VerificationStatus): void {
    const command = this.commands.get(commandId) as Command;
    const word = wordOf(status, verification);
    if (word === 'succeeded' || word === 'failed') {
      command.over = true;
      const won = word === 'succeeded';
      if (command.undoes) this.undone.push({ stepId: command.stepId, won });
      else {
        this.ended.push({ stepId: command.stepId, acted: mayHaveActed(status), won });
        const taken = status === 'cancelled' && this.plan.context.ending !== null;
        if (!won && !taken) this.failed = true;
        const outOfTime = status === 'expired' || status === 'timed_out' || verification === 'timed_out';
        if (!won && outOfTime && this.parked.has(commandId)) this.lost = true;
      }
    }
    const event = moved(commandId, this.at, status, { verification, critical: command.critical });
    this.events.push(event);
    this.send(event);
  }

  /** Told twice, or late. */
  private repeat(pick: number): void {
    const event = this.events[pick % Math.max(1, this.events.length)];
    if (event !== undefined) expect(this.plan.send({ ...event, at: this.at }).same).toBe(true);
  }

  /** Everything that is open comes to its end, and every time passes. */
  finish(look: (world: World) => void): void {
    this.step({ kind: 'resume', pick: 0 });
    look(this);
    for (let n = 1; n < 2_000 && !isOver(this.plan.asSnapshot()); n++) {
      if (this.asks.length > 0) this.step({ kind: 'ask', pick: 7 * 11 * n + 1 });
      else if ([...this.commands.values()].some(({ over }) => !over)) this.step({ kind: 'end', pick: n });
      else this.fire();
      look(this);
    }
  }
}

function gone(walk: Walk, look: (world: World) => void = () => {}): World {
  const world = new World(walk);
  look(world);
  for (const one of walk.moves) {
    world.step(one);
    look(world);
  }
  world.finish(look);
  return world;
}

const holds = (property: (walk: Walk) => void) => fc.assert(fc.property(walks, property), { numRuns: 300 });
const wishOf = ({ steps }: Walk, id: string): StepWish => steps.find((step) => step.id === id) as StepWish;

describe('however a plan goes', () => {
  it('every transition of its chart is taken', () => {
    const left = untaken(planDefinition, () => {
      for (const walk of fc.sample(walks, { numRuns: 2_500, seed: 3 })) gone(walk);
    });
    expect(left).toEqual([]);
  });

  it('every state of its chart is reached', () => {
    const seen = new Set(['lifecycle.unregistered']);
    for (const walk of fc.sample(walks, { numRuns: 600, seed: 3 }))
      for (const state of gone(walk).seen) seen.add(state);
    expect([...seen].sort()).toEqual(declaredStates(planDefinition).sort());
  });

  it('it ends in the final state that its commands and its people say', () => {
    holds((walk) => {
      const { plan, cancelled, failed, lost, undone } = gone(walk);
      const { status, steps } = plan.context;
      const last = new Map(undone.map(({ stepId, won }) => [stepId, won]));
      const allUndone = [...last.values()].every((won) => won);
      const stopped = lost || (failed && !cancelled && walk.onFailure === 'stop');
      const rolled = cancelled ? 'cancelled' : 'rolled_back';
      if (!cancelled && !failed) expect(status).toBe('succeeded');
      else if (stopped) expect(status).toBe('failed');
      else expect(status).toBe(allUndone ? rolled : 'rollback_failed');
      expect(
        steps.some((step) => ['pending', 'running', 'awaiting_confirmation', 'compensating'].includes(step.status)),
      ).toBe(false);
      expect([plan.running.size, phaseOf(plan.context)]).toEqual([0, status]);
    });
  });

  it('a step is asked for once, when all that it depends on has succeeded, and none after it began to end', () => {
    holds((walk) => {
      let asked = 0;
      let ending = false;
      gone(walk, (world) => {
        const first = asked;
        asked = world.asked.length;
        for (const [n, { stepId, commandId }] of world.asked.entries()) {
          if (n < first) continue;
          const step = world.plan.context.steps.find(({ id }) => id === stepId);
          if (step?.commandId !== commandId) continue;
          const earlier = world.asked.slice(0, n).filter((one) => one.stepId === stepId && one.commandId !== commandId);
          expect([earlier, ending]).toEqual([[], false]);
          for (const other of wishOf(walk, stepId).dependsOn) {
            expect(world.ended.some(({ stepId: id, won }) => id === other && won)).toBe(true);
          }
        }
        ending = world.plan.context.ending !== null;
      });
    });
  });

  it('exactly what was done is undone, one after another, the last first, and nothing when it stops', () => {
    holds((walk) => {
      const { plan, asked, ended, starts } = gone(walk);
      expect(new Set(starts).size).toBe(starts.length);
      const { status, steps } = plan.context;
      const begun = asked.flatMap(({ stepId, commandId }) =>
        steps.some((step) => step.id === stepId && step.commandId === commandId) ? [] : [stepId],
      );
      const tried = begun.filter(
        (id, n) => begun.indexOf(id) === n && steps.find((one) => one.id === id)?.undo !== null,
      );
      if (status === 'succeeded' || status === 'failed') {
        expect(tried).toEqual([]);
        return;
      }
      const due = ended.filter(({ stepId, acted }) => acted && wishOf(walk, stepId).compensation !== null).reverse();
      const left = new Set(steps.filter(({ undoError }) => undoError?.code === 'NOT_COMPENSATED').map(({ id }) => id));
      expect(tried).toEqual(due.map(({ stepId }) => stepId).filter((id) => !left.has(id)));
      for (const { stepId } of due) {
        const { status: now } = steps.find(({ id }) => id === stepId) as { status: string };
        expect(['compensated', 'compensation_failed']).toContain(now);
      }
    });
  });

  it('what it left undone is what its failed compensations stood on, and nothing else', () => {
    holds((walk) => {
      const { steps } = gone(walk).plan.context;
      const standsOn = (id: string): string[] => {
        const { dependsOn } = wishOf(walk, id);
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

  it('it is stored and goes on from there as it would have', () => {
    holds((walk) => {
      gone(walk, ({ plan }) => {
        const { value, context } = plan;
        plan.reload();
        expect([plan.value, plan.context]).toEqual([value, context]);
      });
    });
  });

  it('its status is where its steps stand', () => {
    holds((walk) => {
      const world = new World(walk);
      for (const one of walk.moves) {
        world.step(one);
        const { context } = world.plan;
        const phase = phaseOf(context);
        expect(context.status).toBe(phase === 'stopping' ? 'running' : phase);
      }
    });
  });
});
