import { type BackoffLimits, backoffDelay } from '../../domain/backoff.ts';
import type { Clock } from '../../domain/clock.ts';
import type { CollectionSizes } from '../../domain/collection-sizes.ts';
import type { Lease } from '../../domain/lease.ts';
import type { Log } from '../../domain/log.ts';
import type { ActorRef } from '../../machines/outputs.ts';
import {
  type ActorStore,
  CommitUnknown,
  DataRefused,
  IdempotencyConflict,
  type OutboxKey,
  StoreUnavailable,
} from '../../store/contract.ts';
import { ActorExists, EventFailed, NotOwner, type RuntimeMeter } from '../contract.ts';
import { type Deadlines, rejectUnit } from '../deadlines.ts';
import type { Envelope } from '../envelope.ts';
import { addressOf, type LiveActor, takeEnvelopes } from '../live-actor.ts';
import type { ShardOwnership } from '../owned-shards.ts';
import type { RuntimeLimits } from '../runtime-limits.ts';
import { type ActorDirectory, type BatchBuilder, Enlistment } from './enlist.ts';
import { InDoubtCommits } from './in-doubt.ts';
import { LingeringBatch } from './linger.ts';
import { createUnitOfWork, finalize, type UnitOfWork, unansweredEnvelopes } from './unit-of-work.ts';

/** Receives the outcome of each batch; implemented by the supervisor. */
export interface BatchOutcomeHandler {
  /** The unit is durable: adopt it, publish its outputs, answer the senders. */
  release(unit: UnitOfWork): void;
  /** The machine threw on this event, or the store rejected its data. */
  handleFailedEvent(actor: LiveActor, envelope: Envelope, error: Error): void;
  /** The stored row differs from memory, or is unknown: the actor must be reloaded before its next event. */
  evict(actor: LiveActor): void;
  /** A commit of these actors may or may not have happened: acts on the rows that it stored, if it did. */
  reconcileWithStore(actors: readonly ActorRef[]): void;
  /** Deletes the rows of timers that fired without a transition. */
  dropSpentTimers(unit: UnitOfWork): void;
}

/** Units that are committed in one statement. */
interface Batch {
  units: UnitOfWork[];
  /** At least one actor of this batch messaged another one: all units commit, or none. */
  atomic: boolean;
}

const RETRY: BackoffLimits = { firstMs: 25, maxMs: 1_000 };
const MAX_ATTEMPTS = 5;

/**
 * Group commit: drains up to `batchActors` mailboxes, decides each event, writes one statement, and releases the
 * batches in the order in which they were collected. While one batch commits, the next one is collected.
 */
export class GroupCommit {
  readonly #queue: LiveActor[] = [];
  #inFlight = 0;
  #scheduled = false;
  /** The batch that still accepts more units. */
  #lingering: LingeringBatch | null = null;
  #stopped = false;
  #pausedUntil = 0;
  /** Attempts without an answer from the store, since the last batch that committed. */
  #failures = 0;
  #lastRelease: Promise<void> = Promise.resolve();
  readonly #idleWaiters = new Set<() => void>();

  readonly #enlistment: Enlistment;
  readonly #inDoubt: InDoubtCommits;
  readonly #deadlines: Deadlines;
  readonly #outcomeHandler: BatchOutcomeHandler;
  readonly #lease: Lease;
  readonly #limits: RuntimeLimits;
  readonly #log: Log;
  readonly #meter: RuntimeMeter;
  readonly #maxInFlight: number;
  readonly #shards: ShardOwnership;

  constructor(parts: {
    store: ActorStore;
    outcomeHandler: BatchOutcomeHandler;
    clock: Clock;
    lease: Lease;
    limits: RuntimeLimits;
    log: Log;
    meter: RuntimeMeter;
    maxInFlight: number;
    deadlines: Deadlines;
    directory: ActorDirectory;
    shards: ShardOwnership;
  }) {
    const { clock, limits, directory } = parts;
    this.#enlistment = new Enlistment({ clock, directory, maxEnlisted: limits.enlistedActors });
    this.#inDoubt = new InDoubtCommits(parts.store, parts.lease, parts.deadlines);
    this.#deadlines = parts.deadlines;
    this.#outcomeHandler = parts.outcomeHandler;
    this.#lease = parts.lease;
    this.#limits = parts.limits;
    this.#log = parts.log;
    this.#meter = parts.meter;
    this.#maxInFlight = parts.maxInFlight;
    this.#shards = parts.shards;
  }

  /** Queues the actor for the next batch if it has events. */
  enqueue(actor: LiveActor): void {
    if (actor.mailbox.length === 0) {
      // Its creating event was rejected: no actor exists, and the id can be used again.
      if (actor.version === 0) this.#outcomeHandler.evict(actor);
      return;
    }
    // It was evicted during a batch: requeued events belong to the instance that was loaded in its place.
    if (actor.status === 'evicted') {
      this.#outcomeHandler.evict(actor);
      return;
    }
    if (actor.status !== 'idle') return;
    actor.queue();
    this.#queue.push(actor);
    this.#schedule();
  }

  /** True while the store is unavailable and batches wait. */
  get paused(): boolean {
    return this.#failures > 0 && (this.#queue.length > 0 || this.#inFlight > 0);
  }

  /** Actors that wait for the next batch. */
  queuedActors(): readonly LiveActor[] {
    return this.#queue;
  }

  sizes(): CollectionSizes {
    return { actors_ready: this.#queue.length, ...this.#deadlines.sizes() };
  }

  /** Resolves when the queue is empty and no batch is in flight. */
  whenDrained(): Promise<void> {
    if (this.#queue.length === 0 && this.#inFlight === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idleWaiters.add(resolve));
  }

  /** Starts no further batch; those in flight finish. */
  stop(): void {
    this.#stopped = true;
    this.#lingering?.close();
    this.#inDoubt.stop();
  }

  #schedule(): void {
    if (this.#stopped || this.#queue.length === 0) return;
    if (this.#lingering !== null) {
      this.#lingering.collectMore();
      return;
    }
    if (this.#scheduled || this.#inFlight >= this.#maxInFlight) return;
    this.#scheduled = true;
    const pause = this.#pausedUntil - performance.now();
    const run = () => {
      this.#scheduled = false;
      this.#startBatch();
    };
    if (pause > 0) setTimeout(run, pause);
    else setImmediate(run); // includes all events of the current tick of the event loop
  }

  #startBatch(): void {
    if (this.#stopped || this.#inFlight >= this.#maxInFlight) return;
    const batch = this.#enlistment.beginBatch();
    this.#enlistment.addUnits(batch, this.#collect());
    if (batch.units.length > 0) {
      this.#inFlight += 1;
      this.#lingering = new LingeringBatch(batch, {
        enlistment: this.#enlistment,
        maxUnits: this.#limits.batchActors,
        collect: () => this.#collect(),
        commit: (batch) => this.#sealAndCommit(batch),
      });
      this.#lingering.writeOrLinger();
    }
    this.#notifyIdle();
  }

  #sealAndCommit({ units, atomic }: BatchBuilder): void {
    this.#lingering = null;
    units.forEach(finalize);
    this.#deadlines.commitStarted(units);
    this.#schedule();
    this.#commitInOrder({ units, atomic }).finally(() => {
      this.#inFlight -= 1;
      this.#deadlines.commitEnded(units);
      this.#schedule();
      this.#notifyIdle();
    });
  }

  #notifyIdle(): void {
    if (this.#queue.length > 0 || this.#inFlight > 0) return;
    this.#deadlines.queueDrained();
    for (const resolve of this.#idleWaiters) resolve();
    this.#idleWaiters.clear();
  }

  #collect(): UnitOfWork[] {
    const units: UnitOfWork[] = [];
    let events = 0;
    let taken = 0;
    for (; taken < this.#queue.length; taken += 1) {
      if (units.length >= this.#limits.batchActors || events >= this.#limits.batchEvents) break;
      const actor = this.#queue[taken] as LiveActor;
      actor.unqueue();
      const envelopes = takeEnvelopes(actor, this.#limits.batchEvents);
      if (envelopes.length === 0) {
        // All its events were rejected while it waited.
        this.enqueue(actor);
        continue;
      }
      events += envelopes.length;
      units.push(this.#decideMailbox(actor, envelopes));
    }
    this.#queue.splice(0, taken);
    return units;
  }

  #decideMailbox(actor: LiveActor, envelopes: readonly Envelope[]): UnitOfWork {
    const unit = this.#refuseUnowned(createUnitOfWork(actor, envelopes));
    for (const { envelope, error } of unit.failed) this.#outcomeHandler.handleFailedEvent(actor, envelope, error);
    actor.startCommit();
    return unit;
  }

  /** A new actor belongs to the tenant that its first event names, which may be another node's. */
  #refuseUnowned(unit: UnitOfWork): UnitOfWork {
    const { actor, decisions, snapshot } = unit;
    if (actor.version > 0 || decisions.length === 0) return unit;
    if (this.#shards.accepts(actor.definition.tenantOf(snapshot.context))) return unit;
    for (const { envelope } of decisions) envelope.reject(new NotOwner());
    return createUnitOfWork(actor, []);
  }

  async #commitInOrder(batch: Batch): Promise<void> {
    const previousRelease = this.#lastRelease;
    let done = () => {};
    this.#lastRelease = new Promise((resolve) => {
      done = resolve;
    });
    try {
      await this.#commit(batch, previousRelease);
    } catch (error) {
      // A bug outside any actor: the state of the batch is unknown, so all its actors are reloaded.
      await previousRelease;
      this.#log.error({ err: error }, 'batch failed; reloading actors');
      for (const unit of batch.units) this.#rejectAndEvict(unit, new EventFailed('the batch of this event failed'));
    } finally {
      done();
    }
  }

  /** Commits and releases. A batch rejected for its data is bisected until the poison event is isolated. */
  async #commit(batch: Batch, previousRelease: Promise<void>): Promise<void> {
    const { units, atomic } = batch;
    const actors = units.flatMap((unit) => (unit.commit ? [unit.commit] : []));
    const delivered: OutboxKey[] = units.flatMap((unit) => unit.delivered);
    const started = performance.now();
    let lost: ReadonlySet<string> = new Set();
    try {
      if (actors.length > 0 || delivered.length > 0) {
        const lostRefs = await this.#inDoubt.commitBatch(actors, { delivered, atomic }, () => this.#backOff());
        if (lostRefs.length > 0) lost = new Set(lostRefs.map(addressOf));
      }
    } catch (error) {
      if (error instanceof DataRefused) this.#deadlines.storeAnswered();
      await previousRelease;
      if (error instanceof DataRefused && atomic)
        await this.#commit(this.#redecideWithoutEnlistment(units), previousRelease);
      else await this.#handleFailure(units, error, previousRelease);
      return;
    }
    this.#deadlines.storeAnswered();
    await previousRelease;
    if (!this.#lease.valid()) return this.#abandon(units);
    if (atomic && lost.size > 0 && lost.size === actors.length) {
      await this.#commit(this.#redecideWithoutEnlistment(units), previousRelease);
      return;
    }
    this.#failures = 0;
    this.#meter.batchCommitted(
      actors.length,
      units.reduce((sum, unit) => sum + unit.decisions.length, 0),
      performance.now() - started,
    );
    for (const unit of units) {
      if (lost.size > 0 && unit.commit && lost.has(addressOf(unit.actor.ref))) this.#handleConflict(unit);
      else this.#release(unit);
    }
  }

  /** Another process may be the active one: releases nothing, confirms nothing, starts no further batch. */
  #abandon(units: readonly UnitOfWork[]): void {
    this.stop();
    for (const unit of units) this.#rejectAndEvict(unit, new CommitUnknown('the lease expired during the commit'));
  }

  /** Decides the same events again without enlistment: messages between actors go through the outbox. */
  #redecideWithoutEnlistment(units: readonly UnitOfWork[]): Batch {
    for (const { actor, isNew } of units) {
      actor.endCommit();
      if (isNew) this.#outcomeHandler.evict(actor);
    }
    const redecided = units.flatMap((unit) =>
      unit.isNew ? [] : [this.#decideMailbox(unit.actor, unansweredEnvelopes(unit))],
    );
    redecided.forEach(finalize);
    return { units: redecided, atomic: false };
  }

  #release(unit: UnitOfWork): void {
    const { actor } = unit;
    actor.endCommit();
    if (unit.spentTimers.length > 0) this.#outcomeHandler.dropSpentTimers(unit);
    this.#outcomeHandler.release(unit);
    this.enqueue(actor);
  }

  async #handleFailure(units: UnitOfWork[], error: unknown, previousRelease: Promise<void>): Promise<void> {
    if (error instanceof DataRefused) {
      if (units.length === 1) return this.#isolatePoisonEvent(units[0] as UnitOfWork, error);
      const half = units.length >> 1;
      await this.#commit({ units: units.slice(0, half), atomic: false }, previousRelease);
      await this.#commit({ units: units.slice(half), atomic: false }, previousRelease);
      return;
    }
    if (error instanceof CommitUnknown) {
      this.#log.warn({ err: error, actors: units.length }, 'commit outcome unknown; reloading actors');
      for (const unit of units) this.#rejectAndEvict(unit, error);
      this.#outcomeHandler.reconcileWithStore(units.map(({ actor }) => actor.ref));
      return;
    }
    if (error instanceof StoreUnavailable) {
      this.#backOff();
      for (const unit of units) this.#requeue(unit, error);
      return;
    }
    throw error;
  }

  /** Pauses batches, exponentially longer each time, with jitter. */
  #backOff(): void {
    this.#failures += 1;
    this.#pausedUntil = performance.now() + backoffDelay(this.#failures, RETRY, 'half');
    this.#deadlines.commitFailed();
    this.#meter.storeUnavailable();
  }

  /** Nothing was committed: puts the events back at the front of the mailbox, and rejects the expired ones. */
  #requeue(unit: UnitOfWork, reason: Error): void {
    const { actor } = unit;
    actor.endCommit();
    if (unit.isNew) {
      this.#outcomeHandler.evict(actor);
      return;
    }
    actor.mailbox = unansweredEnvelopes(unit).concat(actor.mailbox);
    this.#deadlines.rejectExpired(actor, reason);
    this.enqueue(actor);
  }

  #handleConflict(unit: UnitOfWork): void {
    const { actor } = unit;
    actor.endCommit();
    if (actor.version > 0) {
      this.#meter.versionConflict();
      this.#log.warn({ actor: addressOf(actor.ref), version: actor.version }, 'version conflict; reloading actor');
    }
    const retried: Envelope[] = [];
    // Events that were sent to the new actor after its creation are meant for the one that exists.
    const creation = actor.version === 0 ? unit.decisions[0]?.envelope : undefined;
    for (const envelope of unansweredEnvelopes(unit)) {
      envelope.attempts += 1;
      if (envelope === creation) envelope.reject(new ActorExists('the actor exists already'));
      else if (envelope.attempts > MAX_ATTEMPTS)
        envelope.reject(new StoreUnavailable('version conflict: the actor is being changed by another process'));
      else retried.push(envelope);
    }
    actor.mailbox = retried.concat(actor.mailbox);
    this.#outcomeHandler.evict(actor);
  }

  /** Handles the unit that the store rejects for its data: retries its events one by one and fails the poison one. */
  #isolatePoisonEvent(unit: UnitOfWork, error: DataRefused): void {
    const { actor } = unit;
    actor.endCommit();
    if (unit.decisions.length > 1) {
      actor.isolating = true;
      actor.mailbox = unansweredEnvelopes(unit).concat(actor.mailbox);
      this.enqueue(actor);
      return;
    }
    actor.isolating = false;
    for (const { envelope } of unit.decisions) {
      if (error instanceof IdempotencyConflict) {
        envelope.reject(error);
        continue;
      }
      this.#log.error(
        { actor: addressOf(actor.ref), event: envelope.event.type, sqlState: error.sqlState },
        'event rejected by the store for its data',
      );
      this.#meter.dataRefused();
      this.#outcomeHandler.handleFailedEvent(
        actor,
        envelope,
        new EventFailed('the store rejected the data of an event', { cause: error }),
      );
    }
    this.enqueue(actor);
  }

  #rejectAndEvict(unit: UnitOfWork, reason: Error): void {
    rejectUnit(unit, reason);
    this.#outcomeHandler.evict(unit.actor);
  }
}
