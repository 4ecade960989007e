import type { Clock } from '../domain/clock.ts';
import type { Sizes } from '../domain/sizes.ts';
import type { EpochMs } from '../domain/values.ts';
import { CommitUnknown, StoreUnavailable } from '../store/contract.ts';
import type { Draft } from './draft.ts';
import type { Letter } from './letters.ts';
import type { Limits } from './limits.ts';
import { partPatient } from './patience.ts';

/** The longest time between two looks; a short patience is looked at four times. */
const LOOK_MS = 500;

/**
 * Answers senders who waited too long for a store that says nothing at all: those whose letters are in a turn, and those
 * whose letters wait for the next. What such a turn comes to is nobody's to hear any more.
 */
export class Overdue {
  private readonly turns = new Map<readonly Draft[], PromiseWithResolvers<void>>();
  private answeredAt = 0;
  private handle: NodeJS.Timeout | null = null;

  private readonly clock: Clock;
  private readonly silenceMs: number;
  private readonly waiting: () => Iterable<{ mailbox: Letter[] }>;

  /** `waiting` are those whose letters wait for the next turn. */
  constructor(clock: Clock, limits: Limits, waiting: () => Iterable<{ mailbox: Letter[] }>) {
    this.clock = clock;
    this.silenceMs = limits.callerPatienceMs;
    this.waiting = waiting;
  }

  sizes(): Sizes {
    return { turns_in_flight: this.turns.size };
  }

  begins(turn: readonly Draft[]): void {
    if (this.turns.size === 0) this.answeredAt = performance.now();
    this.turns.set(turn, Promise.withResolvers());
    this.arm();
  }

  ends(turn: readonly Draft[]): void {
    this.turns.get(turn)?.resolve();
    this.turns.delete(turn);
  }

  /** The store said something: whatever it was, it is there. */
  answered(): void {
    this.answeredAt = performance.now();
  }

  private arm(): void {
    if (this.handle !== null) return;
    // After a pause of this process its timers run before an answer is read that has been there all along.
    this.handle = setTimeout(() => setImmediate(() => this.look()), Math.min(LOOK_MS, this.silenceMs / 4)).unref();
  }

  private look(): void {
    this.handle = null;
    if (this.turns.size === 0) return;
    if (performance.now() - this.answeredAt >= this.silenceMs) this.giveUp(this.clock.now());
    this.arm();
  }

  private giveUp(now: EpochMs): void {
    for (const [turn, { promise }] of this.turns) for (const made of turn) answer(made, promise, now);
    for (const place of this.waiting()) {
      const { on, over } = partPatient(place.mailbox, now);
      for (const letter of over) letter.reject(unavailable());
      if (over.length > 0) place.mailbox = on;
    }
  }
}

function answer({ entity, steps }: Draft, ended: Promise<void>, now: EpochMs): void {
  const decided = new Set(steps.map(({ letter }) => letter));
  const { on, over } = partPatient([...decided, ...entity.mailbox], now);
  for (const letter of over) letter.reject(decided.has(letter) ? unknown(ended) : unavailable());
  if (over.length > 0) entity.mailbox = on.filter((letter) => !decided.has(letter));
}

const unknown = (ended: Promise<void>): Error => new CommitUnknown('no answer from the store', { ended });
const unavailable = (): Error => new StoreUnavailable('no answer from the store');
