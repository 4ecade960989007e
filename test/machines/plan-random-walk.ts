import { expect } from 'vitest';
import { type CommandStatus, mayHaveActed, type VerificationStatus } from '../../src/domain/command.ts';
import { type OnFailure, outcomeOf } from '../../src/domain/plan.ts';
import type { Output } from '../../src/machines/outputs.ts';
import { isPlanFinal } from '../../src/machines/plan-record.ts';
import type { PlanEvent, StepInput } from '../../src/machines/plan-types.ts';
import { isPlannerActive } from '../../src/machines/plan-update.ts';
import { fc } from '../support/properties.ts';
import { blankPlan, create, GOAL, moved, type Plan, statuses, stepInput } from './plan-fixtures.ts';
import { statesIn } from './random-walk.ts';
import { ofType, requester, T0 } from './samples.ts';

// Random walks of a plan with commands, planner messages, flags, suspensions and restarts. The expected result is
// computed independently, from the outcomes of the commands and the received messages.

interface Command {
  id: string;
  stepId: string;
  undoes: boolean;
  /** The statuses it will report, in order; empty if the gateway has not decided yet. */
  proposed: CommandStatus[];
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

const kinds = [
  ...(['ask', 'word', 'end', 'repeat', 'timer', 'reload', 'cancel', 'suspend', 'resume'] as const),
  ...(['propose', 'again', 'hush', 'complete', 'break', 'excuse'] as const),
] as const;

/** `pick` selects one of the actions that are possible at that moment. */
type Move = {
  kind: (typeof kinds)[number];
  pick: number;
};

const graphs: fc.Arbitrary<StepInput[]> = fc
  .array(fc.record({ before: fc.array(fc.nat(7), { maxLength: 3 }), compensated: fc.boolean() }), {
    minLength: 1,
    maxLength: 8,
  })
  .map((nodes) =>
    nodes.map(({ before, compensated }, n) =>
      stepInput(`s${n}`, {
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
export const walks = fc.record({
  steps: graphs,
  /** Its steps are proposed one by one. */
  goal: fc.boolean(),
  onFailure: fc.constantFrom<OnFailure>('rollback', 'stop'),
  /** Successful outcomes, out of ten. */
  luck: fc.constantFrom(2, 7, 9, 10),
  moves: fc.array(
    fc.oneof(
      ...[move('ask', 12), move('word', 8), move('end', 12), move('repeat', 3), move('timer', 3), move('reload', 3)],
      ...[move('cancel', 2), move('suspend', 1), move('resume', 1), move('propose', 12), move('again', 2)],
      ...[move('hush', 2), move('complete', 2), move('break', 1), move('excuse', 2)],
    ),
    { maxLength: 80 },
  ),
});
export type Walk = typeof walks extends fc.Arbitrary<infer T> ? T : never;

export class World {
  readonly plan: Plan = blankPlan();
  readonly commands = new Map<string, Command>();
  asks: Ask[] = [];
  /** All `plan.ask` outputs, in order. */
  readonly requested: Ask[] = [];
  readonly events: PlanEvent[] = [];
  /** Steps in the order in which they ended, with whether their device may have acted. */
  readonly ended: { stepId: string; acted: boolean; won: boolean }[] = [];
  /** Steps that are not proposed yet; each comes after its dependencies. */
  readonly unproposed: StepInput[] = [];
  readonly proposed: StepInput[] = [];
  /** Planner timeouts that the service has to evaluate, by their due times. */
  readonly plannerTimeouts: number[] = [];
  /** The types of context changes that were sent to the planner. */
  readonly sentChanges: string[] = [];
  completed = false;
  /** The planner reported that it cannot continue. */
  gaveUp = false;
  readonly undone: { stepId: string; won: boolean }[] = [];
  readonly seen = new Set<string>();
  readonly starts: string[] = [];
  cancelled = false;
  failed = false;
  lost = false;
  suspended = false;
  readonly parked = new Set<string>();
  at = T0;
  readonly #walk: Walk;

  constructor(walk: Walk) {
    this.#walk = walk;
    if (walk.goal) this.unproposed.push(...[...walk.steps].sort((a, b) => (a.id < b.id ? -1 : 1)));
    this.send(create(walk.goal ? [] : walk.steps, walk.onFailure, walk.goal ? GOAL : undefined));
  }

  send(event: PlanEvent | { type: `xstate.after.${string}`; at: number }): void {
    const { outputs } = this.plan.send(event as PlanEvent);
    this.#take(outputs);
  }

  fire(): void {
    if (this.plan.running.size === 0) return;
    this.at = Math.max(this.at, ...[...this.plan.running.values()].map(({ dueAt }) => dueAt));
    this.#take(this.plan.fire().outputs);
  }

  #take(outputs: readonly Output[]): void {
    for (const { stepId, commandId } of ofType(outputs, 'plan.ask')) {
      this.asks.push({ stepId, commandId });
      this.requested.push({ stepId, commandId });
    }
    for (const { dueAt } of ofType(outputs, 'plan.unheard')) this.plannerTimeouts.push(dueAt);
    for (const { change } of ofType(outputs, 'context.changed')) this.sentChanges.push(change.type);
    for (const { to } of ofType(outputs, 'actor.tell')) {
      const command = this.commands.get(to.id);
      // The command may have been written already, so the cancellation may come too late.
      if (command && !command.over && !command.proposed.includes('in_progress')) command.proposed.push('cancelled');
    }
    for (const state of statesIn(this.plan.value as never)) this.seen.add(state);
  }

  step({ kind, pick }: Move): void {
    this.at += 1 + (pick % 40);
    switch (kind) {
      case 'ask':
        this.#answerAsk(pick);
        break;
      case 'word':
      case 'end':
        this.#speak(pick, kind === 'end');
        break;
      case 'repeat':
        this.#repeat(pick);
        break;
      case 'timer':
        this.fire();
        break;
      case 'reload':
        this.plan.reload();
        break;
      case 'cancel':
        if (
          !isPlanFinal(this.plan.asSnapshot()) &&
          ['running', 'pending', 'awaiting_confirmation'].includes(this.plan.context.live.status)
        ) {
          this.cancelled = true;
          this.lost = false;
        }
        this.send({ type: 'cancel', at: this.at, by: requester });
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
        break;
      default:
        this.#think(kind, pick);
    }
  }

  /** A planner message. One that the plan does not expect is refused, and changes nothing. */
  #think(kind: Move['kind'], pick: number): void {
    if (kind === 'excuse') {
      this.#judge(pick);
      return;
    }
    const event = this.#plannerEvent(kind, pick);
    if (event === null) return;
    const counts = isPlannerActive(this.plan.context);
    const repeats = kind === 'again';
    const { same, outputs } = this.plan.send(event);
    const refusals = ofType(outputs, 'refused').map(({ refusal }) => refusal.code);
    if (!counts)
      expect([same, outputs.length, refusals]).toEqual([true, 1, [this.#walk.goal ? 'CONFLICT' : 'NOT_FOUND']]);
    else expect([same, refusals]).toEqual([repeats, []]);
    this.#take(outputs);
    if (!counts || repeats) return;
    if (event.type === 'node.proposed') this.proposed.push(...this.unproposed.splice(0, 1));
    if (event.type === 'cognition.completed') this.completed = true;
    if (event.type === 'cognition.failed') {
      this.gaveUp = true;
      this.failed = true;
    }
  }

  #plannerEvent(kind: Move['kind'], pick: number): PlanEvent | null {
    const { at } = this;
    const node = kind === 'again' ? this.proposed[pick % Math.max(1, this.proposed.length)] : this.unproposed[0];
    switch (kind) {
      case 'hush':
        return { type: 'cognition.suspended', at, reason: 'It warms up.', forMs: 1 + pick };
      case 'complete':
        return { type: 'cognition.completed', at, summary: 'All is said.', finalState: null };
      case 'break':
        return { type: 'cognition.failed', at, error: { code: 'NO_IDEA', detail: 'No idea.' } };
      default:
        return node === undefined ? null : { type: 'node.proposed', at, node: node };
    }
  }

  /** Evaluates a planner timeout: it is excused or not. The planner may have answered in the meantime. */
  #judge(pick: number): void {
    const dueAt = this.plannerTimeouts.shift();
    if (dueAt === undefined) return;
    const { cognition } = this.plan.context.live;
    const counts = cognition?.overdue === true && cognition.dueAt === dueAt;
    const excused = this.suspended || pick % 3 > 0;
    const { same, outputs } = this.plan.send(
      excused
        ? { type: 'cognition.excused', at: this.at, dueAt, forMs: 5_000 }
        : { type: 'cognition.unheard', at: this.at, dueAt },
    );
    expect(same).toBe(!counts);
    this.#take(outputs);
    if (counts && !excused) this.failed = true;
  }

  #answerAsk(pick: number): void {
    const [ask] = this.asks.splice(pick % Math.max(1, this.asks.length), 1);
    if (ask === undefined) return;
    const { stepId, commandId } = ask;
    const step = this.plan.context.live.steps.find(({ id }) => id === stepId);
    const undoes = step?.undo?.commandId === commandId;
    const refuses = !undoes && this.plan.context.live.ending !== null;
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
      this.commands.set(commandId, {
        id: commandId,
        stepId,
        undoes,
        proposed: [],
        critical: pick % 5 === 0,
        over: false,
      });
      this.#reportStatus(commandId, pick % 4 === 0 ? 'awaiting_confirmation' : 'dispatched', 'pending');
    }
  }

  #speak(pick: number, ends: boolean): void {
    const open = [...this.commands.values()].filter(({ over }) => !over);
    const command = open[pick % Math.max(1, open.length)];
    if (command === undefined) return;
    if (command.proposed.includes('cancelled')) {
      this.#reportStatus(command.id, 'cancelled', 'unverifiable');
      return;
    }
    if (!ends) {
      // Confirmed, which is impossible during a suspension.
      if (statuses(this.plan)[command.stepId] === 'awaiting_confirmation') this.parked.delete(command.id);
      command.proposed.push('in_progress');
      this.#reportStatus(command.id, 'dispatched', 'pending');
      return;
    }
    const wins = pick % 10 < this.#walk.luck;
    const [status, verification] = (wins ? endings[pick % 2] : endings[2 + (pick % 6)]) as Ending;
    this.#reportStatus(command.id, status, verification);
  }

  #reportStatus(commandId: string, status: CommandStatus, verification: VerificationStatus): void {
    const command = this.commands.get(commandId) as Command;
    const word = outcomeOf(status, verification);
    if (word === 'succeeded' || word === 'failed') {
      command.over = true;
      const won = word === 'succeeded';
      if (command.undoes) this.undone.push({ stepId: command.stepId, won });
      else {
        this.ended.push({ stepId: command.stepId, acted: mayHaveActed(status), won });
        const taken = status === 'cancelled' && this.plan.context.live.ending !== null;
        if (!won && !taken) this.failed = true;
        const outOfTime = status === 'expired' || status === 'timed_out' || verification === 'timed_out';
        if (!won && outOfTime && this.parked.has(commandId)) this.lost = true;
      }
    }
    const event = moved(commandId, this.at, status, { verification, critical: command.critical });
    this.events.push(event);
    this.send(event);
  }

  /** Delivers a message twice, or late. */
  #repeat(pick: number): void {
    const event = this.events[pick % Math.max(1, this.events.length)];
    if (event !== undefined) expect(this.plan.send({ ...event, at: this.at }).same).toBe(true);
  }

  /** Completes everything that is open, and fires all timers. */
  finish(look: (world: World) => void): void {
    this.step({ kind: 'resume', pick: 0 });
    look(this);
    for (let n = 1; n < 2_000 && !isPlanFinal(this.plan.asSnapshot()); n++) {
      if (this.asks.length > 0) this.step({ kind: 'ask', pick: 7 * 11 * n + 1 });
      else if ([...this.commands.values()].some(({ over }) => !over)) this.step({ kind: 'end', pick: n });
      else if (this.plannerTimeouts.length > 0) this.step({ kind: 'excuse', pick: n });
      else if (isPlannerActive(this.plan.context))
        this.step({ kind: this.unproposed.length > 0 ? 'propose' : 'complete', pick: n });
      else this.fire();
      look(this);
    }
  }
}

export function gone(walk: Walk, look: (world: World) => void = () => {}): World {
  const world = new World(walk);
  look(world);
  for (const one of walk.moves) {
    world.step(one);
    look(world);
  }
  world.finish(look);
  return world;
}
