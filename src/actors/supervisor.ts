import type { Clock } from '../domain/clock.ts';
import type { Lease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import type { Sizes } from '../domain/sizes.ts';
import type { Uuid } from '../domain/values.ts';
import type { MachineDefinition, MachineEvent, Snapshot } from '../machines/definition.ts';
import type { ActorKind, ActorRef, VolatileOutput } from '../machines/outputs.ts';
import type { ActorStore, OutboxRow, StoredActor, TimerRow } from '../store/contract.ts';
import { Arrivals } from './arrivals.ts';
import { type Census, census } from './census.ts';
import type { Others } from './companions.ts';
import {
  ActorExists,
  type Actors,
  type Committed,
  EventFailed,
  type Inspection,
  Quarantined,
  type Reply,
  type SendOptions,
  type VolatileSink,
  type Waiter,
} from './contract.ts';
import { blank, restore } from './decide.ts';
import { type Draft, isSettled } from './draft.ts';
import { addressOf, blankEntity, Entity } from './entity.ts';
import { LeaseOver } from './lease-over.ts';
import { type Extra, type Letter, Mail } from './letters.ts';
import type { Limits } from './limits.ts';
import { Loader } from './loader.ts';
import type { RuntimeMeter } from './meter.ts';
import { passivate } from './passivation.ts';
import { Roster } from './roster.ts';
import { Sinks } from './sinks.ts';
import { type TurnEnd, Turns } from './turns.ts';

/** Finds a machine's definition: the current one, or the version a stored actor was written by. */
export type Definitions = (kind: ActorKind, version?: number) => MachineDefinition;

/** What follows a release; the runtime's other parts hang here. */
export interface Afterwards {
  /** Durable outputs of a released transition; resolves when their targets have committed. */
  deliver(rows: OutboxRow[]): Promise<void>;
  /** What an output comes to where memory tells; null where it takes more. */
  atHand: Others['atHand'];
  timerSet(timer: TimerRow): void;
  unknownCommit(): void;
}

/** Until a timer on which its machine threw comes again. */
const PUT_OFF_MS = 3_600_000;
const SETTLED: Promise<void> = Promise.resolve();
const BY_ITSELF: Extra = {};

/** Holds the live actors, loads those that are asked for, passivates those nobody asks for. */
export class Supervisor implements Actors, TurnEnd {
  private readonly entities = new Roster();
  private crowded = false;

  private readonly store: ActorStore;
  private readonly definitions: Definitions;
  private readonly clock: Clock;
  private readonly lease: Lease;
  private readonly limits: Limits;
  private readonly log: Log;
  private readonly meter: RuntimeMeter;
  private readonly mail: Mail;
  private readonly loader: Loader;
  private readonly arrivals: Arrivals;
  private readonly sinks: Sinks;
  readonly turns: Turns;
  private afterwards: Afterwards = { deliver: () => SETTLED, atHand: () => null, timerSet() {}, unknownCommit() {} };

  constructor(parts: {
    store: ActorStore;
    turnsInFlight: number;
    definitions: Definitions;
    clock: Clock;
    lease: Lease;
    limits: Limits;
    log: Log;
    meter: RuntimeMeter;
  }) {
    this.store = parts.store;
    this.definitions = parts.definitions;
    this.clock = parts.clock;
    this.lease = parts.lease;
    this.limits = parts.limits;
    this.log = parts.log;
    this.meter = parts.meter;
    this.mail = new Mail(parts.limits, parts.log);
    this.loader = new Loader(parts.store);
    this.sinks = new Sinks(parts.log);
    this.arrivals = new Arrivals({
      clock: parts.clock,
      find: (ref, wanted) => this.find(ref, wanted),
      post: (entity) => this.turns.post(entity),
    });
    this.turns = new Turns({
      ...parts,
      end: this,
      maxInFlight: parts.turnsInFlight,
      arrivals: () => this.arrivals.rooms(),
      others: {
        live: (ref) => this.entities.get(ref),
        find: (ref) => (this.arrivals.waitingFor(ref) === 0 ? this.entities.get(ref) : undefined),
        isFree: (ref) => this.arrivals.waitingFor(ref) === 0 && !this.entities.has(ref),
        make: (ref) => blankEntity(ref, this.definitions(ref.kind), this.clock.now()),
        admit: (entity) => this.keep(entity),
        atHand: (output, turn) => this.afterwards.atHand(output, turn),
      },
    });
  }

  follow(afterwards: Afterwards): void {
    this.afterwards = afterwards;
  }

  send(ref: ActorRef, event: MachineEvent, options?: SendOptions): Promise<Reply> {
    return this.deliver(ref, event, { options });
  }

  post(ref: ActorRef, event: MachineEvent, waiter: Waiter): void {
    this.direct(ref, event, BY_ITSELF, this.mail.hearing(waiter));
  }

  create(ref: ActorRef, event: MachineEvent, options?: SendOptions): Promise<Reply> {
    return this.make(ref, event, { options });
  }

  /** As `create`, with what the runtime's own senders add. */
  make(ref: ActorRef, event: MachineEvent, extra: Extra): Promise<Reply> {
    if (this.entities.has(ref)) return Promise.reject(new ActorExists('it exists already'));
    const barred = this.mail.bars(0, extra);
    if (barred) return Promise.reject(barred);
    const entity = blankEntity(ref, this.definitions(ref.kind), this.clock.now());
    this.keep(entity);
    const waiter = Promise.withResolvers<Reply>();
    this.put(entity, event, extra, waiter);
    return waiter.promise;
  }

  /** As `send`, with what the runtime's own senders add. */
  deliver(ref: ActorRef, event: MachineEvent, extra: Extra): Promise<Reply> {
    const waiter = Promise.withResolvers<Reply>();
    this.direct(ref, event, extra, waiter);
    return waiter.promise;
  }

  async read<Context = object>(ref: ActorRef): Promise<Committed<Context> | null> {
    if (!this.lease.valid()) throw new LeaseOver();
    const live = this.entities.get(ref);
    const entity = live && !live.stale && live.version > 0 ? live : await this.summon(ref);
    if (!entity || entity.version === 0) return null;
    entity.usedAt = this.clock.now();
    return entity.committed();
  }

  async readAll<Context = object>(kind: ActorKind, ids: readonly Uuid[]): Promise<Map<Uuid, Committed<Context>>> {
    const found = await Promise.all(ids.map((id) => this.read<Context>({ kind, id })));
    const all = new Map<Uuid, Committed<Context>>();
    for (const one of found) if (one) all.set(one.ref.id, one);
    return all;
  }

  peek<Context = object>(ref: ActorRef): Committed<Context> | undefined {
    const live = this.entities.get(ref);
    return live && live.version > 0 && !live.stale && this.lease.valid() ? live.committed() : undefined;
  }

  on<T extends VolatileOutput['type']>(type: T, sink: VolatileSink<T>): () => void {
    return this.sinks.on(type, sink);
  }

  onTransition(watcher: Parameters<Actors['onTransition']>[0]): () => void {
    return this.sinks.onTransition(watcher);
  }

  /** Lets a quarantined actor go on. False where there is no such actor. */
  async releaseQuarantine(ref: ActorRef): Promise<boolean> {
    const entity = await this.summon(ref);
    if (!entity) return false;
    await this.store.quarantine(ref, null);
    this.forget(entity);
    this.afterwards.unknownCommit();
    return true;
  }

  /** It is in a turn that was not released, and of which this version may be. */
  isBefore(ref: ActorRef, version: number): boolean {
    const live = this.entities.get(ref);
    return live?.busy === true && live.version < version;
  }

  inspect(ref: ActorRef): Inspection {
    const live = this.entities.get(ref);
    const mailbox = (live?.mailbox.length ?? 0) + this.arrivals.waitingFor(ref);
    return { live: live !== undefined && !live.stale, mailbox, quarantine: live?.quarantine ?? null };
  }

  stats(): Census & { waiting: number } {
    return { ...census(this.entities), waiting: this.mail.waiting };
  }

  sizes(): Sizes {
    return { ...this.arrivals.sizes(), ...this.loader.sizes(), ...this.sinks.sizes(), ...this.turns.sizes() };
  }

  /** Refuses what comes from now on; resolves when every letter inside is answered. */
  async drain(): Promise<void> {
    this.mail.closed = true;
    do {
      await this.arrivals.settled();
      await this.turns.drained();
    } while (!this.arrivals.empty);
  }

  /** Passivates what was not used for `idleMs`, and the longest unused beyond the bound on live actors. */
  passivate(): number {
    const gone = passivate(this.entities, this.clock.now(), this.limits);
    if (gone > 0) this.meter.passivated(gone);
    return gone;
  }

  // TurnEnd

  release(made: Draft): void {
    const { entity } = made;
    entity.settled = made.commit !== null || isSettled(entity, made.snapshot);
    entity.snapshot = made.snapshot;
    entity.version = made.version;
    entity.since = made.since;
    entity.usedAt = this.clock.now();
    if (made.commit) for (const timer of made.commit.timers.set) this.afterwards.timerSet(timer);
    for (const step of made.steps) {
      const { outputs, letter } = step;
      for (const output of outputs) this.sinks.emit(output);
      const reply: Reply = {
        ref: entity.ref,
        version: step.version,
        snapshot: step.snapshot as unknown as Snapshot,
        since: made.since,
        understood: step.understood,
        outputs,
        told: SETTLED,
      };
      if (step.committed) this.sinks.transition(reply, letter.event, step.from);
      if (step.durable.length > 0) {
        reply.told = this.afterwards.deliver(
          step.durable.map(({ n, output }) => ({ from: entity.ref, version: made.version, n, output })),
        );
        reply.told.catch(() => {}); // whoever asks is told
      }
      letter.resolve(reply);
    }
    if (entity.version === 0 || this.mayLeave(entity)) this.entities.drop(entity.ref);
  }

  /** It rests, has not thrown lately, and nobody asked for it while it was being made: they are given this one. */
  private mayLeave(entity: Entity): boolean {
    const rests = entity.definition.rests(entity.snapshot as unknown as Snapshot);
    return rests && entity.mailbox.length === 0 && entity.throws === null && !this.loader.isLoading(entity.ref);
  }

  threw(entity: Entity, letter: Letter, error: Error): void {
    const now = this.clock.now();
    this.log.error({ actor: addressOf(entity.ref), event: letter.event.type, err: error }, 'an event failed');
    letter.reject(error instanceof EventFailed ? error : new EventFailed('the machine failed on it', { cause: error }));
    if (letter.timer) this.putOff(entity, letter.timer);
    // What a new actor was to be made of is its sender's to end.
    if (letter.delivers && entity.version > 0) {
      this.store.commit({ actors: [], delivered: [letter.delivers] }).catch((why) => {
        this.log.warn({ err: why }, 'an undeliverable output stays until the next sweep');
      });
    }
    if (entity.version === 0) return;
    entity.throws = (entity.throws ?? []).filter((at) => now - at < 60_000);
    entity.throws.push(now);
    if (entity.throws.length >= this.limits.throwsToQuarantine) this.quarantine(entity, error.message);
  }

  forget(entity: Entity): void {
    if (this.entities.get(entity.ref) === entity) this.entities.drop(entity.ref);
    const letters = entity.mailbox;
    entity.mailbox = [];
    entity.stale = true;
    // Whether there is such an actor is for the store to say, also where it was being made.
    this.arrivals.putBack(entity.ref, letters);
  }

  unknown(): void {
    this.afterwards.unknownCommit();
  }

  dropTimers({ entity: { ref }, version, spent }: Draft): void {
    this.store
      .dropTimers(
        spent.map((id) => ({ ref, id, version })),
        this.clock.now(),
      )
      .catch((error) => {
        this.log.warn({ err: error }, 'spent timers stay until the next try');
      });
  }

  /** What it ends is not over: without its timer nobody would find an open command any more. */
  private putOff({ ref }: Entity, id: string): void {
    const now = this.clock.now();
    this.store.putOffTimer({ ref, id }, now, now + PUT_OFF_MS).catch((error) => {
      this.log.warn({ err: error }, 'a timer on which a machine threw comes again at once');
    });
  }

  private direct(ref: ActorRef, event: MachineEvent, extra: Extra, waiter: Waiter): void {
    const live = this.entities.get(ref);
    if (live && !live.stale) {
      this.put(live, event, extra, waiter);
      return;
    }
    const barred = this.mail.bars(this.arrivals.waitingFor(ref), extra);
    if (barred) waiter.reject(barred);
    else this.arrivals.add(ref, this.mail.write(event, extra, this.clock.now(), waiter));
  }

  private put(entity: Entity, event: MachineEvent, extra: Extra, waiter: Waiter): void {
    const { quarantine, mailbox } = entity;
    const barred = quarantine === null ? this.mail.bars(mailbox.length, extra) : new Quarantined(quarantine);
    if (barred) {
      waiter.reject(barred);
      return;
    }
    entity.usedAt = this.clock.now();
    mailbox.push(this.mail.write(event, extra, entity.usedAt, waiter));
    this.turns.post(entity);
  }

  /** The live entity, loaded when it is not; tried again while the store is away, as long as a caller waits. */
  private summon(ref: ActorRef): Promise<Entity | null> {
    const until = performance.now() + this.limits.callerPatienceMs;
    return this.find(ref, () => performance.now() < until);
  }

  private find(ref: ActorRef, wanted: () => boolean): Promise<Entity | null> {
    return this.loader.load(ref, wanted).then((stored) => {
      if (stored !== null) return this.adopt(stored);
      // It may have been made since the store was asked.
      const live = this.entities.get(ref);
      return live && !live.stale && live.version > 0 ? live : null;
    });
  }

  private adopt(stored: StoredActor): Entity {
    const live = this.entities.get(stored.ref);
    if (live && !live.stale) return live;
    let definition = this.definitions(stored.ref.kind);
    const now = this.clock.now();
    let quarantine = stored.quarantine;
    let snapshot = blank(definition);
    try {
      definition = this.definitions(stored.ref.kind, stored.machineVersion);
      snapshot = blank(definition);
      snapshot = restore(definition, stored.value, definition.fromStored(stored.context) as object);
    } catch (error) {
      quarantine = `what is stored does not fit: ${(error as Error).message}`;
      this.log.error({ actor: addressOf(stored.ref), err: error }, 'a stored actor does not fit its machine');
    }
    const entity = new Entity(stored.ref, definition, { snapshot, version: stored.version, since: stored.since }, now);
    entity.quarantine = quarantine;
    this.keep(entity);
    return entity;
  }

  /** A tenth over the bound the longest unused are passivated at once, not only when it is looked for. */
  private keep(entity: Entity): void {
    this.entities.keep(entity);
    if (this.crowded || this.entities.size <= this.limits.live * 1.1) return;
    this.crowded = true;
    setImmediate(() => {
      this.crowded = false;
      this.passivate();
    });
  }

  private quarantine(entity: Entity, reason: string): void {
    entity.quarantine = reason;
    this.meter.quarantined();
    this.log.error({ actor: addressOf(entity.ref), reason }, 'the actor is quarantined');
    const letters = entity.mailbox;
    entity.mailbox = [];
    for (const letter of letters) letter.reject(new Quarantined(reason));
    this.store.quarantine(entity.ref, reason).catch((error) => {
      this.log.warn({ err: error, actor: addressOf(entity.ref) }, 'the quarantine is not stored');
    });
  }
}
