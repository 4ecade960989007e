import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { Lease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';
import type { ContextParts, MachineEvent } from '../machines/definition.ts';
import type { ActorKind, ActorRef, VolatileOutput } from '../machines/outputs.ts';
import type { ActorStore, OutboxRow, TimerRow } from '../store/contract.ts';
import { ActivationQueue } from './activation-queue.ts';
import { Activator, type Definitions } from './activator.ts';
import { Admission, bypassesLimits } from './admission.ts';
import type { ActorDirectory } from './commit/enlist.ts';
import { type BatchOutcomeHandler, GroupCommit } from './commit/group-commit.ts';
import { isFixedUnchanged, type UnitOfWork } from './commit/unit-of-work.ts';
import {
  ActorExists,
  type Actors,
  type Committed,
  type Inspection,
  LeaseExpired,
  NotOwner,
  Quarantined,
  type Reply,
  type ReplyHandler,
  type RuntimeMeter,
  type SendOptions,
  type VolatileOutputHandler,
} from './contract.ts';
import { Deadlines } from './deadlines.ts';
import type { Envelope, InternalSendOptions } from './envelope.ts';
import type { EventBus } from './event-bus.ts';
import { EventFailureHandler } from './event-failure-handler.ts';
import type { LiveActor } from './live-actor.ts';
import type { ShardOwnership } from './owned-shards.ts';
import type { ActorRegistry, RegistryStats } from './registry.ts';
import type { RuntimeLimits } from './runtime-limits.ts';

/** Hooks after a release, implemented by the other parts of the runtime. */
export interface CommitHooks {
  /** Durable outputs of a released transition; resolves when their targets have committed. */
  deliver(rows: OutboxRow[]): Promise<void>;
  /** Resolves an output from memory; null if that is not possible. */
  resolveSync: ActorDirectory['resolveSync'];
  timerSet(timer: TimerRow): void;
  /**
   * Acts on stored rows whose commit this process did not release: outbox, timers, expected states, revoked devices, and
   * the tenants among the actors of that commit.
   */
  reconcileWithStore(actors: readonly ActorRef[]): void;
}

const RESOLVED: Promise<void> = Promise.resolve();
const POSTED: InternalSendOptions = { deferReply: true };

/** Actor supervisor: routes events to live actors, loads actors on demand, passivates unused ones. */
export class Supervisor implements Actors, BatchOutcomeHandler {
  readonly #registry: ActorRegistry;
  #passivationScheduled = false;

  readonly #store: ActorStore;
  readonly #clock: Clock;
  readonly #lease: Lease;
  readonly #shards: ShardOwnership;
  readonly #limits: RuntimeLimits;
  readonly #log: Log;
  readonly #meter: RuntimeMeter;
  readonly #admission: Admission;
  readonly #deadlines: Deadlines;
  readonly #failureHandler: EventFailureHandler;
  readonly #activator: Activator;
  readonly #activationQueue: ActivationQueue;
  readonly #eventBus: EventBus;
  readonly groupCommit: GroupCommit;
  #hooks: CommitHooks = {
    deliver: () => RESOLVED,
    resolveSync: () => null,
    timerSet() {},
    reconcileWithStore() {},
  };

  constructor(parts: {
    store: ActorStore;
    batchesInFlight: number;
    definitions: Definitions;
    clock: Clock;
    lease: Lease;
    limits: RuntimeLimits;
    log: Log;
    meter: RuntimeMeter;
    eventBus: EventBus;
    registry: ActorRegistry;
    shards: ShardOwnership;
  }) {
    this.#registry = parts.registry;
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#lease = parts.lease;
    this.#shards = parts.shards;
    this.#limits = parts.limits;
    this.#log = parts.log;
    this.#meter = parts.meter;
    this.#admission = new Admission(parts.limits, parts.log);
    this.#deadlines = new Deadlines(parts.clock, parts.limits);
    this.#failureHandler = new EventFailureHandler(parts);
    this.#activator = new Activator({
      ...parts,
      deadlines: this.#deadlines,
      register: (actor) => this.#register(actor),
    });
    this.#eventBus = parts.eventBus;
    this.#activationQueue = new ActivationQueue({
      deadlines: this.#deadlines,
      load: (ref, isWanted) => this.#activator.load(ref, isWanted),
      enqueue: (actor) => this.groupCommit.enqueue(actor),
    });
    this.groupCommit = new GroupCommit({
      ...parts,
      outcomeHandler: this,
      maxInFlight: parts.batchesInFlight,
      deadlines: this.#deadlines,
      directory: {
        getLive: (ref) => this.#registry.get(ref),
        findDeliverable: (ref) => (this.#activationQueue.pendingCount(ref) === 0 ? this.#registry.get(ref) : undefined),
        isUnused: (ref) => this.#activationQueue.pendingCount(ref) === 0 && !this.#registry.has(ref),
        createBlank: (ref) => this.#activator.createBlank(ref),
        register: (actor) => this.#register(actor),
        resolveSync: (output, batch) => this.#hooks.resolveSync(output, batch),
      },
    });
    this.#deadlines.watch(() => [...this.groupCommit.queuedActors(), ...this.#activationQueue.pendingMailboxes()]);
  }

  setHooks(hooks: CommitHooks): void {
    this.#hooks = hooks;
  }

  send(ref: ActorRef, event: MachineEvent, options?: SendOptions): Promise<Reply> {
    return this.sendWith(ref, event, { options });
  }

  post(ref: ActorRef, event: MachineEvent, replyTo: ReplyHandler): void {
    this.#route(ref, event, POSTED, replyTo);
  }

  create(ref: ActorRef, event: MachineEvent, options?: SendOptions): Promise<Reply> {
    return this.createWith(ref, event, { options });
  }

  /** As `create`, with the options of the runtime's own senders. */
  createWith(ref: ActorRef, event: MachineEvent, internal: InternalSendOptions): Promise<Reply> {
    if (this.#liveOrCreated(ref)) return Promise.reject(new ActorExists('the actor exists already'));
    const rejection = this.#admission.rejectionFor(0, internal);
    if (rejection) return Promise.reject(rejection);
    const actor = this.#activator.createBlank(ref);
    this.#register(actor);
    const replyTo = Promise.withResolvers<Reply>();
    this.#enqueue(actor, event, internal, replyTo);
    return replyTo.promise;
  }

  /** As `send`, with the options of the runtime's own senders. */
  sendWith(ref: ActorRef, event: MachineEvent, internal: InternalSendOptions): Promise<Reply> {
    const replyTo = Promise.withResolvers<Reply>();
    this.#route(ref, event, internal, replyTo);
    return replyTo.promise;
  }

  async read<Context extends ContextParts>(ref: ActorRef): Promise<Committed<Context> | null> {
    if (!this.#lease.valid()) throw new LeaseExpired();
    const live = this.#registry.get(ref);
    const actor = live && live.version > 0 ? live : await this.#activator.readOrLoad(ref);
    if (!actor || actor.version === 0) return null;
    actor.lastUsedAt = this.#clock.now();
    return actor.committed();
  }

  async readAll<Context extends ContextParts>(
    kind: ActorKind,
    ids: readonly Uuid[],
  ): Promise<Map<Uuid, Committed<Context>>> {
    const found = await Promise.all(ids.map((id) => this.read<Context>({ kind, id })));
    const all = new Map<Uuid, Committed<Context>>();
    for (const one of found) if (one) all.set(one.ref.id, one);
    return all;
  }

  peek<Context extends ContextParts>(ref: ActorRef): Committed<Context> | undefined {
    const live = this.#registry.get(ref);
    return live && live.version > 0 && this.#lease.valid() ? live.committed() : undefined;
  }

  owns(tenantId: Uuid): boolean {
    return this.#shards.admits(tenantId);
  }

  enter(tenantId: Uuid, interrupt?: () => void): (() => void) | null {
    return this.#shards.enter(tenantId, interrupt);
  }

  subscribe<T extends VolatileOutput['type']>(type: T, handler: VolatileOutputHandler<T>): () => void {
    return this.#eventBus.subscribe(type, handler);
  }

  subscribeTransitions(handler: Parameters<Actors['subscribeTransitions']>[0]): () => void {
    return this.#eventBus.subscribeTransitions(handler);
  }

  async releaseQuarantine(ref: ActorRef): Promise<boolean> {
    const actor = await this.#activator.getOrLoad(ref);
    if (!actor) return false;
    // Another node that loaded the actor before the write would keep it in quarantine.
    const leave = this.#shards.enter(actor.tenantId);
    if (leave === null) throw new NotOwner();
    try {
      await this.#store.quarantine(ref, null);
      this.evict(actor);
    } finally {
      leave();
    }
    this.#hooks.reconcileWithStore([]);
    return true;
  }

  /** The actor is in a batch that is not released yet and may contain this version. */
  isVersionPending(ref: ActorRef, version: number): boolean {
    const live = this.#registry.get(ref);
    return live?.status === 'committing' && live.version < version;
  }

  inspect(ref: ActorRef): Inspection {
    const live = this.#registry.get(ref);
    const mailbox = (live?.mailbox.length ?? 0) + this.#activationQueue.pendingCount(ref);
    return { live: live !== undefined, mailbox, quarantine: live?.quarantine ?? null };
  }

  /** Number of actors in memory. */
  get liveCount(): number {
    return this.#registry.size;
  }

  stats(): RegistryStats & { waiting: number } {
    return { ...this.#registry.stats(), waiting: this.#admission.pending };
  }

  sizes(): CollectionSizes {
    return {
      ...this.#activationQueue.sizes(),
      ...this.#activator.sizes(),
      ...this.#eventBus.sizes(),
      ...this.groupCommit.sizes(),
    };
  }

  /** Rejects new events; resolves when all accepted ones are answered. */
  async drain(): Promise<void> {
    this.#admission.closed = true;
    do {
      await this.#activationQueue.whenDrained();
      await this.groupCommit.whenDrained();
    } while (!this.#activationQueue.empty);
  }

  /** Passivates idle actors, and the least recently used ones above `liveActors`. Returns their number. */
  passivate(): number {
    const passivated = this.#registry.passivate(this.#clock.now(), this.#limits);
    if (passivated > 0) this.#meter.passivated(passivated);
    return passivated;
  }

  // BatchOutcomeHandler

  release(unit: UnitOfWork): void {
    const { actor } = unit;
    actor.fixedStored = unit.commit !== null || isFixedUnchanged(actor, unit.snapshot);
    actor.snapshot = unit.snapshot;
    actor.version = unit.version;
    actor.since = unit.since;
    actor.lastUsedAt = this.#clock.now();
    if (unit.commit) for (const timer of unit.commit.timers.set) this.#hooks.timerSet(timer);
    for (const decision of unit.decisions) {
      const { outputs, envelope } = decision;
      for (const output of outputs) this.#eventBus.emit(output);
      const reply: Reply = {
        ref: actor.ref,
        version: decision.version,
        snapshot: decision.snapshot,
        since: unit.since,
        understood: decision.understood,
        outputs,
        messagesDelivered: RESOLVED,
      };
      if (decision.committed) this.#eventBus.emitTransition(reply, envelope.event, decision.from);
      if (decision.outboxEntries.length > 0) {
        reply.messagesDelivered = this.#hooks.deliver(
          decision.outboxEntries.map(({ n, output }) => ({ from: actor.ref, version: unit.version, n, output })),
        );
        reply.messagesDelivered.catch(() => {}); // callers that await it still get the error
      }
      envelope.resolve(reply);
    }
    if (actor.version === 0 || this.#canPassivateNow(actor)) this.#registry.remove(actor);
  }

  /** It is idle, has not thrown recently, and no load for it is pending: such a load returns this instance. */
  #canPassivateNow(actor: LiveActor): boolean {
    const canPassivate = actor.definition.canPassivate(actor.snapshot);
    return (
      canPassivate &&
      actor.mailbox.length === 0 &&
      actor.recentFailures === null &&
      !this.#activator.isLoading(actor.ref)
    );
  }

  handleFailedEvent(actor: LiveActor, envelope: Envelope, error: Error): void {
    this.#failureHandler.handle(actor, envelope, error);
  }

  evict(actor: LiveActor): void {
    this.#registry.remove(actor);
    const envelopes = actor.mailbox;
    actor.mailbox = [];
    actor.evict();
    // The store decides whether the actor exists, also after a failed creation.
    this.#activationQueue.prepend(actor.ref, envelopes);
  }

  reconcileWithStore(actors: readonly ActorRef[]): void {
    this.#hooks.reconcileWithStore(actors);
  }

  dropSpentTimers({ actor: { ref }, version, spentTimers }: UnitOfWork): void {
    this.#store
      .dropTimers(
        spentTimers.map((id) => ({ ref, id, version })),
        this.#clock.now(),
      )
      .catch((error) => {
        this.#log.warn({ err: error }, 'spent timers not deleted; they fire again');
      });
  }

  /** The actor in memory, also if it is being created; not one whose creating event was rejected while it was queued. */
  #liveOrCreated(ref: ActorRef): LiveActor | undefined {
    const actor = this.#registry.get(ref);
    if (actor === undefined || actor.version > 0) return actor;
    if (actor.mailbox.length > 0 || actor.status === 'committing') return actor;
    this.evict(actor);
    return undefined;
  }

  #route(ref: ActorRef, event: MachineEvent, internal: InternalSendOptions, replyTo: ReplyHandler): void {
    const live = this.#liveOrCreated(ref);
    if (live) {
      this.#enqueue(live, event, internal, replyTo);
      return;
    }
    const rejection = this.#admission.rejectionFor(this.#activationQueue.pendingCount(ref), internal);
    const envelope = this.#admit(event, internal, this.#clock.now(), replyTo);
    if (rejection) envelope.reject(rejection);
    else this.#activationQueue.add(ref, envelope);
  }

  #enqueue(actor: LiveActor, event: MachineEvent, internal: InternalSendOptions, replyTo: ReplyHandler): void {
    const { quarantine, mailbox } = actor;
    const rejection = this.#isUnloading(actor, internal)
      ? new NotOwner()
      : quarantine === null
        ? this.#admission.rejectionFor(mailbox.length, internal)
        : new Quarantined(quarantine);
    const now = this.#clock.now();
    const envelope = this.#admit(event, internal, now, replyTo);
    if (rejection) {
      envelope.reject(rejection);
      return;
    }
    actor.lastUsedAt = now;
    mailbox.push(envelope);
    this.groupCommit.enqueue(actor);
  }

  /** Whether an event from outside comes too late: the actor only finishes its work. */
  #isUnloading(actor: LiveActor, internal: InternalSendOptions): boolean {
    if (!this.#shards.unloading || actor.version === 0 || bypassesLimits(internal)) return false;
    return !this.#shards.accepts(actor.tenantId);
  }

  #admit(event: MachineEvent, internal: InternalSendOptions, now: EpochMs, replyTo: ReplyHandler): Envelope {
    return this.#admission.admit(event, internal, this.#deadlines.deadlineOf(event, internal, now), replyTo);
  }

  /** Passivates immediately, not only periodically, at 10 % above the limit. */
  #register(actor: LiveActor): void {
    this.#registry.add(actor);
    if (this.#passivationScheduled || this.#registry.size <= this.#limits.liveActors * 1.1) return;
    this.#passivationScheduled = true;
    setImmediate(() => {
      this.#passivationScheduled = false;
      this.passivate();
    });
  }
}
