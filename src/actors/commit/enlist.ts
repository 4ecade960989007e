import type { Clock } from '../../domain/clock.ts';
import type { MachineEvent, Snapshot } from '../../machines/definition.ts';
import type { ActorRef, DurableOutput, ResolvableOutput } from '../../machines/outputs.ts';
import { toMachineEvent } from '../actor-message.ts';
import type { AddressedEvent, BatchView, Committed } from '../contract.ts';
import { Envelope } from '../envelope.ts';
import { addressOf, type LiveActor } from '../live-actor.ts';
import { createUnitOfWork, type Decision, decideNext, type UnitOfWork } from './unit-of-work.ts';

/** A turn in the making. */
export interface BatchBuilder {
  units: UnitOfWork[];
  unitByActor: Map<LiveActor, UnitOfWork>;
  view: BatchView;
  /** Drafts at most. */
  maxUnits: number;
  /** Some of its actors were told something by others of them. */
  atomic: boolean;
  /** Who was told by who was told itself, as a plan is by its commands: others may be about to tell it too. */
  fanInTargets: Set<LiveActor>;
  /** Gathered ones that told none of those. */
  unrelatedCount: number;
  /** Whom a teller's output waits for in the outbox: of several things that one is told the later ones must not come first. */
  queuedTargets: Map<LiveActor, Set<string>>;
}

/** A step that told somebody something. */
interface SenderDecision {
  sender: LiveActor;
  decision: Decision;
  /** With whom it began: who was gathered. */
  origin: LiveActor;
}

/** The actors beside those of a turn, as the supervisor holds them. */
export interface ActorDirectory {
  getLive(ref: ActorRef): LiveActor | undefined;
  /** A live actor to whom nothing is on its way. */
  findDeliverable(ref: ActorRef): LiveActor | undefined;
  /** Nobody is known by it here. */
  isUnused(ref: ActorRef): boolean;
  /** A new actor, of which nobody knows until it is admitted. */
  createBlank(ref: ActorRef): LiveActor;
  register(actor: LiveActor): void;
  /** What an output comes to, where memory tells; null where it takes more. */
  resolveSync(output: ResolvableOutput, batch: BatchView): AddressedEvent | null;
}

/**
 * A device's word reaches its command, that command's plan, the commands of the steps which follow, and with what became of them the
 * plan again; what is told then goes through the outbox: a turn ends.
 */
const MAX_ROUNDS = 4;
/** Who answers at once does within this of what was released. */
const RECENT_MS = 5;

/**
 * What an actor tells another is decided in the same turn where the other is at hand: both are then kept by one statement,
 * or neither, and no outbox row is written only to be deleted. So is what somebody outside the runtime makes of an output, where memory
 * tells that: an actor that is new with it begins in this turn. Whatever stands in the way leaves the output to the outbox.
 */
export class Enlistment {
  private readonly clock: Clock;
  private readonly directory: ActorDirectory;
  private readonly maxEnlisted: number;

  constructor(parts: { clock: Clock; directory: ActorDirectory; maxEnlisted: number }) {
    this.clock = parts.clock;
    this.directory = parts.directory;
    this.maxEnlisted = parts.maxEnlisted;
  }

  beginBatch(): BatchBuilder {
    const unitByActor = new Map<LiveActor, UnitOfWork>();
    const view = this.createView(unitByActor);
    return {
      units: [],
      unitByActor,
      view,
      maxUnits: this.maxEnlisted,
      atomic: false,
      fanInTargets: new Set(),
      unrelatedCount: 0,
      queuedTargets: new Map(),
    };
  }

  /**
   * Takes `drafts` into the turn, and lets those who are told something in them decide it, behind all that waits for them, and then
   * those whom these tell; who is not in the turn yet joins it.
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
      for (const senderDecision of senderDecisions) this.deliverAll(senderDecision, batch, received);
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
   * True where all of the turn is about somebody who waits for words that may be there any moment: of others that were released just now,
   * as the one was that has spoken.
   */
  expectsMoreMessages({ fanInTargets, unrelatedCount, unitByActor }: BatchBuilder): boolean {
    if (unrelatedCount > 0) return false;
    const since = this.clock.now() - RECENT_MS;
    const maySend = (ref: ActorRef): boolean => {
      const actor = this.directory.findDeliverable(ref);
      return actor !== undefined && !actor.inBatch && actor.version > 0 && actor.lastUsedAt >= since;
    };
    for (const actor of fanInTargets) {
      const { snapshot } = unitByActor.get(actor) as UnitOfWork;
      if (actor.definition.expectsMessagesFrom?.(snapshot as unknown as Snapshot).some(maySend)) return true;
    }
    return false;
  }

  private deliverAll(
    { sender, decision, origin }: SenderDecision,
    batch: BatchBuilder,
    received: SenderDecision[],
  ): void {
    const undelivered = decision.outboxEntries.filter(({ output }) => {
      const addressed = this.resolveOutput(output, batch);
      if (addressed === null) return true;
      const receiverDecision = isQueued(addressed.to, sender, batch) ? null : this.deliver(addressed, batch, origin);
      if (receiverDecision === null) markQueued(addressed.to, sender, batch);
      else received.push(receiverDecision);
      return receiverDecision === null;
    });
    decision.outboxEntries = undelivered;
  }

  private createView(unitByActor: ReadonlyMap<LiveActor, UnitOfWork>): BatchView {
    return {
      peek: <Context = object>(ref: ActorRef) => {
        const actor = this.directory.getLive(ref);
        if (actor === undefined || actor.evicted) return undefined;
        const existing = unitByActor.get(actor);
        if (existing === undefined && actor.inBatch) return undefined;
        const { version, snapshot, since } = existing ?? actor;
        return version > 0 ? ({ ref, version, snapshot, since } as unknown as Committed<Context>) : undefined;
      },
    };
  }

  private resolveOutput(output: DurableOutput, { view }: BatchBuilder): AddressedEvent | null {
    switch (output.type) {
      case 'actor.tell':
        return { to: output.to, event: toMachineEvent(output.event, this.clock.now()) };
      case 'commands.tell':
      case 'plans.tell':
        return null;
      default:
        try {
          return this.directory.resolveSync(output, view);
        } catch {
          return null;
        }
    }
  }

  /** Null where the outbox has to tell it; what a machine throws on is to fail by itself. */
  private deliver(
    { to, event, create }: AddressedEvent,
    batch: BatchBuilder,
    origin: LiveActor,
  ): SenderDecision | null {
    const unit = create ? this.enlistNew(to, batch) : this.enlist(to, batch);
    if (unit === null) return null;
    const { actor } = unit;
    let decision: Decision;
    try {
      decision = decideNext(unit, this.envelopeFor(event));
    } catch {
      return null;
    }
    if (!batch.unitByActor.has(actor)) {
      actor.inBatch = true;
      batch.unitByActor.set(actor, unit);
      batch.units.push(unit);
      if (unit.isNew) this.directory.register(actor);
    }
    return { sender: actor, decision, origin };
  }

  private enlist(ref: ActorRef, { unitByActor, units, maxUnits }: BatchBuilder): UnitOfWork | null {
    const actor = this.directory.findDeliverable(ref);
    if (actor === undefined) return null;
    const existing = unitByActor.get(actor);
    if (!canEnlist(actor, existing)) return null;
    if (existing !== undefined) return existing;
    return actor.inBatch || units.length >= maxUnits ? null : createUnitOfWork(actor, []);
  }

  private enlistNew(ref: ActorRef, { units, maxUnits }: BatchBuilder): UnitOfWork | null {
    if (units.length >= maxUnits || !this.directory.isUnused(ref)) return null;
    return { ...createUnitOfWork(this.directory.createBlank(ref), []), isNew: true };
  }

  private envelopeFor(event: MachineEvent): Envelope {
    return new Envelope(event, {}, this.clock.now(), Number.POSITIVE_INFINITY);
  }
}

/** Within a turn it neither tells nor is told: a culprit is looked for, or it is quarantined. */
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

/** All of it goes through the outbox, and while the turn is open nothing overtakes it. */
function leaveToOutbox(sender: LiveActor, { outboxEntries }: Decision, batch: BatchBuilder): void {
  for (const { output } of outboxEntries) if (output.type === 'actor.tell') markQueued(output.to, sender, batch);
}

/** It exists, with this turn at the latest, and all that waits for it is in this turn, or nothing does. */
const canEnlist = (actor: LiveActor, existing: UnitOfWork | undefined): boolean =>
  (existing ?? actor).version > 0 &&
  !actor.queued &&
  !actor.evicted &&
  !isIsolated(actor) &&
  actor.mailbox.length === 0;
