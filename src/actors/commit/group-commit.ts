import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import {
  type ActorStore,
  CommitUnknown,
  DataRefused,
  IdempotencyConflict,
  type OutboxKey,
  StoreUnavailable,
} from '../../store/contract.ts';
import { ActorExists, EventFailed } from '../contract.ts';
import { isFromDevice, splitExpired } from '../deadlines.ts';
import type { Envelope } from '../envelope.ts';
import { addressOf, type LiveActor, takeEnvelopes } from '../live-actor.ts';
import type { RuntimeLimits } from '../runtime-limits.ts';
import type { RuntimeMeter } from '../runtime-meter.ts';
import { type ActorDirectory, type BatchBuilder, Enlistment } from './enlist.ts';
import { InDoubtCommits } from './in-doubt.ts';
import { LingeringBatch } from './linger.ts';
import { createUnitOfWork, seal, type UnitOfWork } from './unit-of-work.ts';
import { StoreWatchdog } from './watchdog.ts';

/** What becomes of actors when a turn is over; the supervisor does it. */
export interface BatchOutcomeHandler {
  /** The draft is durable: adopt it, tell the world, answer the senders. */
  release(draft: UnitOfWork): void;
  /** The machine threw on this letter. */
  eventFailed(entity: LiveActor, letter: Envelope, error: Error): void;
  /** The row is not what was read, or nobody knows: the entity must be loaded again before its next letter. */
  evict(entity: LiveActor): void;
  /** A commit may or may not have happened: what it told others is swept from the outbox. */
  outcomeUnknown(): void;
  /** What was spent in it. */
  dropSpentTimers(draft: UnitOfWork): void;
}

/** What is written together. */
interface Batch {
  units: UnitOfWork[];
  /** Some of its actors were told something by others of them: all of it is kept, or nothing. */
  atomic: boolean;
}

const MAX_BACKOFF_MS = 1_000;
const MAX_ATTEMPTS = 5;

/**
 * The runtime's heartbeat: takes mailboxes that have letters, `turnActors` at a time, decides, writes all of it in one
 * statement, and releases in the order the turns were gathered. While one turn commits, the next gathers.
 */
export class GroupCommit {
  private readonly queue: LiveActor[] = [];
  private inFlight = 0;
  private scheduled = false;
  /** A turn is gathered and takes more in. */
  private lingering: LingeringBatch | null = null;
  private stopped = false;
  private pausedUntil = 0;
  private backoffMs = 0;
  private lastRelease: Promise<void> = Promise.resolve();
  private readonly idleWaiters = new Set<() => void>();

  private readonly enlistment: Enlistment;
  private readonly inDoubt: InDoubtCommits;
  private readonly watchdog: StoreWatchdog;
  private readonly outcomeHandler: BatchOutcomeHandler;
  private readonly clock: Clock;
  private readonly lease: Lease;
  private readonly limits: RuntimeLimits;
  private readonly log: Log;
  private readonly meter: RuntimeMeter;
  private readonly maxInFlight: number;

  constructor(parts: {
    store: ActorStore;
    end: BatchOutcomeHandler;
    clock: Clock;
    lease: Lease;
    limits: RuntimeLimits;
    log: Log;
    meter: RuntimeMeter;
    maxInFlight: number;
    /** Where letters wait for their actor to be loaded. */
    arrivals(): Iterable<{ mailbox: Envelope[] }>;
    others: ActorDirectory;
  }) {
    const { clock, limits, others } = parts;
    this.enlistment = new Enlistment({ clock, others, most: limits.enlistedActors });
    this.inDoubt = new InDoubtCommits(parts.store, parts.lease, parts.limits.deviceTimeoutMs);
    this.watchdog = new StoreWatchdog(parts.clock, parts.limits, () => [...this.queue, ...parts.arrivals()]);
    this.outcomeHandler = parts.end;
    this.clock = parts.clock;
    this.lease = parts.lease;
    this.limits = parts.limits;
    this.log = parts.log;
    this.meter = parts.meter;
    this.maxInFlight = parts.maxInFlight;
  }

  /** The entity has letters: it takes part in the next turn. */
  enqueue(entity: LiveActor): void {
    if (entity.queued || entity.inBatch || entity.mailbox.length === 0) return;
    // It was let go while it was in a turn, and what comes back of that is for who was loaded in its place.
    if (entity.evicted) {
      this.outcomeHandler.evict(entity);
      return;
    }
    entity.queued = true;
    this.queue.push(entity);
    this.schedule();
  }

  /** True while the store refuses and turns wait. */
  get paused(): boolean {
    return this.backoffMs > 0 && (this.queue.length > 0 || this.inFlight > 0);
  }

  sizes(): CollectionSizes {
    return { actors_ready: this.queue.length, ...this.watchdog.sizes() };
  }

  /** Resolves when nothing waits and nothing is in flight. */
  whenDrained(): Promise<void> {
    if (this.queue.length === 0 && this.inFlight === 0) return Promise.resolve();
    return new Promise((resolve) => this.idleWaiters.add(resolve));
  }

  /** No further turn is begun; those in flight finish. */
  stop(): void {
    this.stopped = true;
    this.lingering?.close();
    this.inDoubt.stop();
  }

  private schedule(): void {
    if (this.stopped || this.queue.length === 0) return;
    if (this.lingering !== null) {
      this.lingering.collectMore();
      return;
    }
    if (this.scheduled || this.inFlight >= this.maxInFlight) return;
    this.scheduled = true;
    const pause = this.pausedUntil - performance.now();
    const run = () => {
      this.scheduled = false;
      this.startBatch();
    };
    if (pause > 0) setTimeout(run, pause);
    else setImmediate(run); // what the same tick of the event loop brings in goes along
  }

  private startBatch(): void {
    if (this.stopped || this.inFlight >= this.maxInFlight) return;
    const turn = this.enlistment.beginBatch();
    this.enlistment.addUnits(turn, this.gather());
    if (turn.units.length > 0) {
      this.inFlight += 1;
      this.lingering = new LingeringBatch(turn, {
        companions: this.enlistment,
        most: this.limits.batchActors,
        gather: () => this.gather(),
        write: (filled) => this.sealAndCommit(filled),
      });
      this.lingering.writeOrLinger();
    }
    this.notifyIdle();
  }

  private sealAndCommit({ units, atomic }: BatchBuilder): void {
    this.lingering = null;
    units.forEach(seal);
    this.watchdog.batchStarted(units);
    this.schedule();
    this.commitInOrder({ units, atomic }).finally(() => {
      this.inFlight -= 1;
      this.watchdog.batchEnded(units);
      this.schedule();
      this.notifyIdle();
    });
  }

  private notifyIdle(): void {
    if (this.queue.length > 0 || this.inFlight > 0) return;
    for (const resolve of this.idleWaiters) resolve();
    this.idleWaiters.clear();
  }

  private gather(): UnitOfWork[] {
    const drafts: UnitOfWork[] = [];
    let events = 0;
    let taken = 0;
    for (; taken < this.queue.length; taken += 1) {
      if (drafts.length >= this.limits.batchActors || events >= this.limits.batchEvents) break;
      const entity = this.queue[taken] as LiveActor;
      entity.queued = false;
      const letters = takeEnvelopes(entity, this.limits.batchEvents);
      if (letters.length === 0) continue;
      events += letters.length;
      drafts.push(this.decideMailbox(entity, letters));
    }
    this.queue.splice(0, taken);
    return drafts;
  }

  private decideMailbox(entity: LiveActor, letters: readonly Envelope[]): UnitOfWork {
    const made = createUnitOfWork(entity, letters);
    for (const { letter, error } of made.failed) this.outcomeHandler.eventFailed(entity, letter, error);
    entity.inBatch = true;
    return made;
  }

  private async commitInOrder(turn: Batch): Promise<void> {
    const before = this.lastRelease;
    let done = () => {};
    this.lastRelease = new Promise((resolve) => {
      done = resolve;
    });
    try {
      await this.commit(turn, before);
    } catch (error) {
      // A bug outside any actor: nothing is known of the turn, so nothing of it is believed.
      await before;
      this.log.error({ err: error }, 'a turn failed');
      for (const made of turn.units) this.rejectAndEvict(made, new EventFailed('the turn failed'));
    } finally {
      done();
    }
  }

  /** Commits and releases; a batch refused for its data is halved until the culprit stands alone. */
  private async commit(turn: Batch, before: Promise<void>): Promise<void> {
    const { units, atomic } = turn;
    const actors = units.flatMap((made) => (made.commit ? [made.commit] : []));
    const delivered: OutboxKey[] = units.flatMap((made) => made.delivered);
    const started = performance.now();
    let lost: ReadonlySet<string> = new Set();
    try {
      if (actors.length > 0 || delivered.length > 0) {
        const rivals = await this.inDoubt.commitBatch({ actors, delivered, atomic: atomic }, () => this.backOff());
        if (rivals.length > 0) lost = new Set(rivals.map(addressOf));
      }
    } catch (error) {
      if (error instanceof DataRefused) this.watchdog.storeAnswered();
      await before;
      if (error instanceof DataRefused && atomic) await this.commit(this.redecideIsolated(units), before);
      else await this.handleFailure(units, error, before);
      return;
    }
    this.watchdog.storeAnswered();
    await before;
    if (!this.lease.valid()) return this.abandon(units);
    if (atomic && lost.size > 0 && lost.size === actors.length) {
      await this.commit(this.redecideIsolated(units), before);
      return;
    }
    this.backoffMs = 0;
    this.meter.batchCommitted(
      actors.length,
      units.reduce((sum, made) => sum + made.decisions.length, 0),
      performance.now() - started,
    );
    for (const made of units) {
      if (lost.size > 0 && made.commit && lost.has(addressOf(made.actor.ref))) this.handleConflict(made);
      else this.release(made);
    }
  }

  /** Another process may be the active one: nothing is released or answered as done, and no other turn begins. */
  private abandon(drafts: readonly UnitOfWork[]): void {
    this.stop();
    for (const made of drafts) this.rejectAndEvict(made, new CommitUnknown('the lease ended during the commit'));
  }

  /** The same letters decided anew, each actor by itself: what one tells another goes through the outbox. */
  private redecideIsolated(drafts: readonly UnitOfWork[]): Batch {
    for (const { actor, isNew } of drafts) if (isNew) this.outcomeHandler.evict(actor);
    const again = drafts.flatMap((made) =>
      made.isNew ? [] : [this.decideMailbox(made.actor, unansweredEnvelopes(made))],
    );
    again.forEach(seal);
    return { units: again, atomic: false };
  }

  private release(made: UnitOfWork): void {
    const { actor } = made;
    actor.inBatch = false;
    if (made.spentTimers.length > 0) this.outcomeHandler.dropSpentTimers(made);
    this.outcomeHandler.release(made);
    this.enqueue(actor);
  }

  private async handleFailure(drafts: UnitOfWork[], error: unknown, before: Promise<void>): Promise<void> {
    if (error instanceof DataRefused) {
      if (drafts.length === 1) return this.isolatePoisonEvent(drafts[0] as UnitOfWork, error);
      const half = drafts.length >> 1;
      await this.commit({ units: drafts.slice(0, half), atomic: false }, before);
      await this.commit({ units: drafts.slice(half), atomic: false }, before);
      return;
    }
    if (error instanceof CommitUnknown) {
      this.log.warn({ err: error, actors: drafts.length }, 'nobody knows of a commit: its actors are loaded again');
      for (const made of drafts) this.rejectAndEvict(made, error);
      this.outcomeHandler.outcomeUnknown();
      return;
    }
    if (error instanceof StoreUnavailable) {
      this.backOff();
      const now = this.clock.now();
      for (const made of drafts) this.requeue(made, now, error);
      return;
    }
    throw error;
  }

  /** Turns wait a while, longer each time. */
  private backOff(): void {
    this.backoffMs = Math.min(MAX_BACKOFF_MS, Math.max(25, this.backoffMs * 2));
    this.pausedUntil = performance.now() + this.backoffMs * (0.5 + Math.random() / 2);
    this.meter.storeUnavailable();
  }

  /** Nothing of it was kept: the letters go back to the front, but for those whose sender waits no longer. */
  private requeue(made: UnitOfWork, now: number, why: Error): void {
    const { actor } = made;
    actor.inBatch = false;
    if (made.isNew) {
      this.outcomeHandler.evict(actor);
      return;
    }
    const { on, over } = splitExpired(unansweredEnvelopes(made).concat(actor.mailbox), now);
    for (const letter of over) letter.reject(why);
    actor.mailbox = on;
    this.enqueue(actor);
  }

  private handleConflict(made: UnitOfWork): void {
    const { actor } = made;
    actor.inBatch = false;
    if (actor.version > 0) {
      this.meter.versionConflict();
      this.log.warn({ actor: addressOf(actor.ref), version: actor.version }, 'version conflict; reloading actor');
    }
    const back: Envelope[] = [];
    for (const letter of unansweredEnvelopes(made)) {
      letter.attempts += 1;
      if (actor.version === 0) letter.reject(new ActorExists('it exists already'));
      else if (letter.attempts > MAX_ATTEMPTS) letter.reject(new StoreUnavailable('the actor changes elsewhere'));
      else back.push(letter);
    }
    actor.mailbox = back.concat(actor.mailbox);
    this.outcomeHandler.evict(actor);
  }

  /** The one draft that the store refuses for its data. */
  private isolatePoisonEvent(made: UnitOfWork, error: DataRefused): void {
    const { actor } = made;
    actor.inBatch = false;
    if (made.decisions.length > 1) {
      actor.isolating = true;
      actor.mailbox = unansweredEnvelopes(made).concat(actor.mailbox);
      this.enqueue(actor);
      return;
    }
    actor.isolating = false;
    for (const { envelope } of made.decisions) {
      if (error instanceof IdempotencyConflict) {
        envelope.reject(error);
        continue;
      }
      this.log.error(
        { actor: addressOf(actor.ref), event: envelope.event.type, sqlState: error.sqlState },
        'the store refused an event for its data',
      );
      this.meter.dataRefused();
      this.outcomeHandler.eventFailed(
        actor,
        envelope,
        new EventFailed('the store refused it for its data', { cause: error }),
      );
    }
    if (actor.version === 0 && actor.mailbox.length === 0) this.outcomeHandler.evict(actor);
    this.enqueue(actor);
  }

  private rejectAndEvict(made: UnitOfWork, why: Error): void {
    const { actor } = made;
    actor.inBatch = false;
    for (const { envelope } of made.decisions) envelope.reject(why);
    if (made.decisions.some(({ envelope }) => isFromDevice(envelope))) {
      const [overtaking, others] = partition(actor.mailbox, isFromDevice);
      for (const letter of overtaking) letter.reject(why);
      actor.mailbox = others;
    }
    this.outcomeHandler.evict(actor);
  }
}

function partition<T>(all: readonly T[], holds: (one: T) => boolean): [T[], T[]] {
  const yes: T[] = [];
  const no: T[] = [];
  for (const one of all) (holds(one) ? yes : no).push(one);
  return [yes, no];
}

/** The letters whose senders still wait; what another actor of the turn told is its own to tell again. */
const unansweredEnvelopes = ({ decisions }: UnitOfWork): Envelope[] =>
  decisions.map(({ envelope }) => envelope).filter(({ answered, sentWithinBatch }) => !answered && !sentWithinBatch);
