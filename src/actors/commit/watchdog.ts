import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { EpochMs } from '../../domain/values.ts';
import { CommitUnknown, StoreUnavailable } from '../../store/contract.ts';
import { splitExpired } from '../deadlines.ts';
import type { Envelope } from '../envelope.ts';
import type { RuntimeLimits } from '../runtime-limits.ts';
import type { UnitOfWork } from './unit-of-work.ts';

/** Longest time between two checks; a shorter timeout is checked four times. */
const CHECK_MS = 500;

/**
 * Store watchdog: rejects expired events, both in flight and queued, while the store does not answer at all. The
 * eventual result of an in-flight commit is then discarded.
 */
export class StoreWatchdog {
  private readonly batches = new Map<readonly UnitOfWork[], PromiseWithResolvers<void>>();
  private lastAnswerAt = 0;
  private timer: NodeJS.Timeout | null = null;

  private readonly clock: Clock;
  private readonly timeoutMs: number;
  private readonly queuedMailboxes: () => Iterable<{ mailbox: Envelope[] }>;

  /** `queuedMailboxes`: mailboxes whose events wait for a later batch. */
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

  /** Any answer, including an error, proves that the store is reachable. */
  storeAnswered(): void {
    this.lastAnswerAt = performance.now();
  }

  private arm(): void {
    if (this.timer !== null) return;
    // After a pause of this process, timers run before pending socket reads: an answer may be waiting to be read.
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
