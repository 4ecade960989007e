import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { EpochMs } from '../../domain/values.ts';
import { CommitUnknown, StoreUnavailable } from '../../store/contract.ts';
import { splitExpired } from '../deadlines.ts';
import type { Envelope } from '../envelope.ts';
import type { RuntimeLimits } from '../runtime-limits.ts';
import type { UnitOfWork } from './unit-of-work.ts';

/** The longest time between two looks; a short patience is looked at four times. */
const CHECK_MS = 500;

/**
 * Answers senders who waited too long for a store that says nothing at all: those whose letters are in a turn, and those
 * whose letters wait for the next. What such a turn comes to is nobody's to hear any more.
 */
export class StoreWatchdog {
  private readonly batches = new Map<readonly UnitOfWork[], PromiseWithResolvers<void>>();
  private lastAnswerAt = 0;
  private handle: NodeJS.Timeout | null = null;

  private readonly clock: Clock;
  private readonly silenceMs: number;
  private readonly queuedMailboxes: () => Iterable<{ mailbox: Envelope[] }>;

  /** `waiting` are those whose letters wait for the next turn. */
  constructor(clock: Clock, limits: RuntimeLimits, waiting: () => Iterable<{ mailbox: Envelope[] }>) {
    this.clock = clock;
    this.silenceMs = limits.callerTimeoutMs;
    this.queuedMailboxes = waiting;
  }

  sizes(): CollectionSizes {
    return { turns_in_flight: this.batches.size };
  }

  batchStarted(turn: readonly UnitOfWork[]): void {
    if (this.batches.size === 0) this.lastAnswerAt = performance.now();
    this.batches.set(turn, Promise.withResolvers());
    this.arm();
  }

  batchEnded(turn: readonly UnitOfWork[]): void {
    this.batches.get(turn)?.resolve();
    this.batches.delete(turn);
  }

  /** The store said something: whatever it was, it is there. */
  storeAnswered(): void {
    this.lastAnswerAt = performance.now();
  }

  private arm(): void {
    if (this.handle !== null) return;
    // After a pause of this process its timers run before an answer is read that has been there all along.
    this.handle = setTimeout(() => setImmediate(() => this.check()), Math.min(CHECK_MS, this.silenceMs / 4)).unref();
  }

  private check(): void {
    this.handle = null;
    if (this.batches.size === 0) return;
    if (performance.now() - this.lastAnswerAt >= this.silenceMs) this.rejectExpired(this.clock.now());
    this.arm();
  }

  private rejectExpired(now: EpochMs): void {
    for (const [turn, { promise }] of this.batches) for (const made of turn) rejectExpiredOf(made, promise, now);
    for (const place of this.queuedMailboxes()) {
      const { on, over } = splitExpired(place.mailbox, now);
      for (const letter of over) letter.reject(storeUnavailable());
      if (over.length > 0) place.mailbox = on;
    }
  }
}

function rejectExpiredOf({ actor, decisions }: UnitOfWork, ended: Promise<void>, now: EpochMs): void {
  const decided = new Set(decisions.map(({ envelope }) => envelope));
  const { on, over } = splitExpired([...decided, ...actor.mailbox], now);
  for (const letter of over) letter.reject(decided.has(letter) ? outcomeUnknown(ended) : storeUnavailable());
  if (over.length > 0) actor.mailbox = on.filter((letter) => !decided.has(letter));
}

const outcomeUnknown = (ended: Promise<void>): Error => new CommitUnknown('no answer from the store', { ended });
const storeUnavailable = (): Error => new StoreUnavailable('no answer from the store');
