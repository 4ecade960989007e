import type { Clock } from '../../domain/clock.ts';
import type { ContextParts, MachineEvent } from '../../machines/definition.ts';
import type { ActorRef, DurableOutput, ResolvableOutput } from '../../machines/outputs.ts';
import type { AddressedEvent, BatchView, Committed } from '../contract.ts';
import { Envelope, toMachineEvent } from '../envelope.ts';
import { addressOf, type LiveActor } from '../live-actor.ts';
import { createUnitOfWork, type DecidedEvent, decideNext, type UnitOfWork } from './unit-of-work.ts';

/** A batch that is still being collected. */
export interface BatchBuilder {
  units: UnitOfWork[];
  unitByActor: Map<LiveActor, UnitOfWork>;
  view: BatchView;
  /** Upper bound of `units`. */
  maxUnits: number;
  /** At least one actor of this batch messaged another one: the batch commits atomically. */
  atomic: boolean;
  /** Actors messaged by an enlisted actor, as a plan by its commands. More messages for them may follow shortly. */
  fanInTargets: Set<LiveActor>;
  /** Collected actors that sent nothing to those targets. */
  unrelatedCount: number;
  /** Targets for which a sender has an undelivered outbox row. Later messages queue behind it to keep order. */
  queuedTargets: Map<LiveActor, Set<string>>;
}

/** A decision with outbox entries, and its sender. */
interface SenderDecision {
  sender: LiveActor;
  decision: DecidedEvent;
  /** The collected actor whose message led to this decision. */
  origin: LiveActor;
}

/** Lookup and creation of actors for enlistment; implemented by the supervisor. */
export interface ActorDirectory {
  getLive(ref: ActorRef): LiveActor | undefined;
  /** A live actor without pending messages in the activation queue. */
  findDeliverable(ref: ActorRef): LiveActor | undefined;
  /** No live actor and no pending message has this reference. */
  isUnused(ref: ActorRef): boolean;
  /** A new actor, not visible to others until `register`. */
  createBlank(ref: ActorRef): LiveActor;
  register(actor: LiveActor): void;
  /** The target of an output, if it can be resolved from memory; else null. */
  resolveSync(output: ResolvableOutput, batch: BatchView): AddressedEvent | null;
}

/** Message rounds within a batch: device → command → plan → next commands → plan. Later messages use the outbox. */
const MAX_ROUNDS = 4;
/** An actor released within this time may still send its immediate reply. */
const RECENT_MS = 5;

/**
 * Enlistment: adds the receivers of messages to the sender's batch. If the receiver is in memory and idle, it decides
 * in the same batch; one statement commits both or neither, and no outbox row has to be written and deleted. Resolvable
 * outputs are enlisted the same way if they can be resolved from memory, including actors that they create. All other
 * durable outputs go through the outbox.
 */
export class Enlistment {
  readonly #clock: Clock;
  readonly #directory: ActorDirectory;
  readonly #maxEnlisted: number;

  constructor(parts: { clock: Clock; directory: ActorDirectory; maxEnlisted: number }) {
    this.#clock = parts.clock;
    this.#directory = parts.directory;
    this.#maxEnlisted = parts.maxEnlisted;
  }

  beginBatch(): BatchBuilder {
    const unitByActor = new Map<LiveActor, UnitOfWork>();
    const view = this.#createView(unitByActor);
    return {
      units: [],
      unitByActor,
      view,
      maxUnits: this.#maxEnlisted,
      atomic: false,
      fanInTargets: new Set(),
      unrelatedCount: 0,
      queuedTargets: new Map(),
    };
  }

  /**
   * Adds `units` to the batch and delivers their messages, then the messages that these cause, for up to `MAX_ROUNDS`
   * rounds. Receivers that are not in the batch are enlisted; they decide a message only after everything queued for
   * them.
   */
  addUnits(batch: BatchBuilder, units: readonly UnitOfWork[]): void {
    batch.maxUnits += units.length;
    for (const unit of units) {
      batch.units.push(unit);
      batch.unitByActor.set(unit.actor, unit);
    }
    let senderDecisions = units.flatMap((unit) => (isIsolated(unit.actor) ? [] : senderDecisionsOf(unit)));
    const related = new Set<LiveActor>();
    for (let round = 1; round <= MAX_ROUNDS && senderDecisions.length > 0; round += 1) {
      const received: SenderDecision[] = [];
      for (const senderDecision of senderDecisions) this.#deliverAll(senderDecision, batch, received);
      if (received.length > 0) batch.atomic = true;
      for (const { sender, origin } of received) {
        if (round === 1 || sender === origin) continue;
        batch.fanInTargets.add(sender);
        related.add(origin);
      }
      senderDecisions = received.filter(({ decision }) => decision.outboxEntries.length > 0);
    }
    batch.unrelatedCount += units.length - related.size;
    for (const { sender, decision } of senderDecisions) leaveToOutbox(sender, decision, batch);
  }

  /**
   * True if every collected actor of the batch contributed to a fan-in target, and such a target expects messages from
   * an actor that was released within `RECENT_MS`.
   */
  expectsMoreMessages({ fanInTargets, unrelatedCount, unitByActor }: BatchBuilder): boolean {
    if (unrelatedCount > 0) return false;
    const since = this.#clock.now() - RECENT_MS;
    const maySend = (ref: ActorRef): boolean => {
      const actor = this.#directory.findDeliverable(ref);
      return actor !== undefined && actor.status !== 'committing' && actor.version > 0 && actor.lastUsedAt >= since;
    };
    for (const actor of fanInTargets) {
      const { snapshot } = unitByActor.get(actor) as UnitOfWork;
      if (actor.definition.expectsMessagesFrom?.(snapshot).some(maySend)) return true;
    }
    return false;
  }

  #deliverAll({ sender, decision, origin }: SenderDecision, batch: BatchBuilder, received: SenderDecision[]): void {
    const undelivered = decision.outboxEntries.filter(({ output }) => {
      const addressed = this.#resolveOutput(output, batch);
      if (addressed === null) return true;
      const receiverDecision = isQueued(addressed.to, sender, batch) ? null : this.#deliver(addressed, batch, origin);
      if (receiverDecision === null) markQueued(addressed.to, sender, batch);
      else received.push(receiverDecision);
      return receiverDecision === null;
    });
    decision.outboxEntries = undelivered;
  }

  #createView(unitByActor: ReadonlyMap<LiveActor, UnitOfWork>): BatchView {
    return {
      peek: <Context extends ContextParts>(ref: ActorRef) => {
        const actor = this.#directory.getLive(ref);
        if (actor === undefined) return undefined;
        const existing = unitByActor.get(actor);
        if (existing === undefined && actor.status === 'committing') return undefined;
        const { version, snapshot, since } = existing ?? actor;
        return version > 0 ? ({ ref, version, snapshot, since } as unknown as Committed<Context>) : undefined;
      },
    };
  }

  #resolveOutput(output: DurableOutput, { view }: BatchBuilder): AddressedEvent | null {
    switch (output.type) {
      case 'actor.tell':
        return { to: output.to, event: toMachineEvent(output.event, this.#clock.now()) };
      case 'commands.tell':
      case 'plans.tell':
        return null;
      case 'plan.ask':
      case 'plan.unheard':
        try {
          return this.#directory.resolveSync(output, view);
        } catch {
          return null;
        }
    }
  }

  /** Null if the outbox has to deliver it, also if the machine throws: the event then fails outside this batch. */
  #deliver({ to, event, create }: AddressedEvent, batch: BatchBuilder, origin: LiveActor): SenderDecision | null {
    const unit = create ? this.#enlistNew(to, batch) : this.#enlist(to, batch);
    if (unit === null) return null;
    const { actor } = unit;
    let decision: DecidedEvent;
    try {
      decision = decideNext(unit, this.#envelopeFor(event));
    } catch {
      return null;
    }
    if (!batch.unitByActor.has(actor)) {
      actor.startCommit();
      batch.unitByActor.set(actor, unit);
      batch.units.push(unit);
      if (unit.isNew) this.#directory.register(actor);
    }
    return { sender: actor, decision, origin };
  }

  #enlist(ref: ActorRef, { unitByActor, units, maxUnits }: BatchBuilder): UnitOfWork | null {
    const actor = this.#directory.findDeliverable(ref);
    if (actor === undefined) return null;
    const existing = unitByActor.get(actor);
    if (!canEnlist(actor, existing)) return null;
    if (existing !== undefined) return existing;
    return actor.status === 'committing' || units.length >= maxUnits ? null : createUnitOfWork(actor, []);
  }

  #enlistNew(ref: ActorRef, { units, maxUnits }: BatchBuilder): UnitOfWork | null {
    if (units.length >= maxUnits || !this.#directory.isUnused(ref)) return null;
    return { ...createUnitOfWork(this.#directory.createBlank(ref), []), isNew: true };
  }

  #envelopeFor(event: MachineEvent): Envelope {
    return new Envelope(event, {}, Number.POSITIVE_INFINITY);
  }
}

/** Neither sends nor receives within a batch: a poison event is being isolated, or the actor is quarantined. */
const isIsolated = ({ isolating, quarantine }: LiveActor): boolean => isolating || quarantine !== null;

const senderDecisionsOf = ({ actor, decisions }: UnitOfWork): SenderDecision[] =>
  decisions
    .filter(({ outboxEntries }) => outboxEntries.length > 0)
    .map((decision) => ({ sender: actor, decision, origin: actor }));

const isQueued = (to: ActorRef, sender: LiveActor, { queuedTargets }: BatchBuilder): boolean =>
  queuedTargets.get(sender)?.has(addressOf(to)) === true;

function markQueued(to: ActorRef, sender: LiveActor, { queuedTargets }: BatchBuilder): void {
  const targets = queuedTargets.get(sender) ?? new Set();
  queuedTargets.set(sender, targets.add(addressOf(to)));
}

/** Leaves all outputs to the outbox. Nothing overtakes them while the batch is open. */
function leaveToOutbox(sender: LiveActor, { outboxEntries }: DecidedEvent, batch: BatchBuilder): void {
  for (const { output } of outboxEntries) if (output.type === 'actor.tell') markQueued(output.to, sender, batch);
}

/** The actor exists, at the latest after this batch, and nothing outside this batch is queued for it. */
const canEnlist = (actor: LiveActor, existing: UnitOfWork | undefined): boolean =>
  (existing ?? actor).version > 0 && actor.status !== 'queued' && !isIsolated(actor) && actor.mailbox.length === 0;
