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
  private timer: NodeJS.Timeout | null = null;

  private readonly clock: Clock;
  private readonly timeoutMs: number;
  private readonly queuedMailboxes: () => Iterable<{ mailbox: Envelope[] }>;

  /** `waiting` are those whose letters wait for the next turn. */
  constructor(clock: Clock, limits: RuntimeLimits, queuedMailboxes: () => Iterable<{ mailbox: Envelope[] }>) {
    this.clock = clock;
    this.timeoutMs = limits.callerTimeoutMs;
    this.queuedMailboxes = queuedMailboxes;
  }

  sizes(): CollectionSizes {
    return { turns_in_flight: this.batches.size };
  }

  batchStarted(batch: readonly UnitOfWork[]): void {
    if (this.batches.size === 0) this.lastAnswerAt = performance.now();
    this.batches.set(batch, Promise.withResolvers());
    this.arm();
  }

  batchEnded(batch: readonly UnitOfWork[]): void {
    this.batches.get(batch)?.resolve();
    this.batches.delete(batch);
  }

  /** The store said something: whatever it was, it is there. */
  storeAnswered(): void {
    this.lastAnswerAt = performance.now();
  }

  private arm(): void {
    if (this.timer !== null) return;
    // After a pause of this process its timers run before an answer is read that has been there all along.
    this.timer = setTimeout(() => setImmediate(() => this.check()), Math.min(CHECK_MS, this.timeoutMs / 4)).unref();
  }

  private check(): void {
    this.timer = null;
    if (this.batches.size === 0) return;
    if (performance.now() - this.lastAnswerAt >= this.timeoutMs) this.rejectExpired(this.clock.now());
    this.arm();
  }

  private rejectExpired(now: EpochMs): void {
    for (const [batch, { promise }] of this.batches) for (const unit of batch) rejectExpiredOf(unit, promise, now);
    for (const owner of this.queuedMailboxes()) {
      const { waiting, expired } = splitExpired(owner.mailbox, now);
      for (const envelope of expired) envelope.reject(storeUnavailable());
      if (expired.length > 0) owner.mailbox = waiting;
    }
  }
}

function rejectExpiredOf({ actor, decisions }: UnitOfWork, ended: Promise<void>, now: EpochMs): void {
  const decided = new Set(decisions.map(({ envelope }) => envelope));
  const { waiting, expired } = splitExpired([...decided, ...actor.mailbox], now);
  for (const envelope of expired) envelope.reject(decided.has(envelope) ? outcomeUnknown(ended) : storeUnavailable());
  if (expired.length > 0) actor.mailbox = waiting.filter((envelope) => !decided.has(envelope));
}

const outcomeUnknown = (ended: Promise<void>): Error => new CommitUnknown('no answer from the store', { ended });
const storeUnavailable = (): Error => new StoreUnavailable('no answer from the store');
