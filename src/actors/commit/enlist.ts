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
  register(entity: LiveActor): void;
  /** What an output comes to, where memory tells; null where it takes more. */
  resolveSync(output: ResolvableOutput, turn: BatchView): AddressedEvent | null;
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

  constructor(parts: { clock: Clock; others: ActorDirectory; most: number }) {
    this.clock = parts.clock;
    this.directory = parts.others;
    this.maxEnlisted = parts.most;
  }

  beginBatch(): BatchBuilder {
    const byEntity = new Map<LiveActor, UnitOfWork>();
    const view = this.createView(byEntity);
    return {
      units: [],
      unitByActor: byEntity,
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
  addUnits(turn: BatchBuilder, drafts: readonly UnitOfWork[]): void {
    turn.maxUnits += drafts.length;
    for (const made of drafts) {
      turn.units.push(made);
      turn.unitByActor.set(made.actor, made);
    }
    let tellings = drafts.flatMap((made) => (isIsolated(made.actor) ? [] : senderDecisionsOf(made)));
    const followed = new Set<LiveActor>();
    for (let round = 1; round <= MAX_ROUNDS && tellings.length > 0; round += 1) {
      const heard: SenderDecision[] = [];
      for (const telling of tellings) this.deliverAll(telling, turn, heard);
      if (heard.length > 0) turn.atomic = true;
      for (const { sender, origin } of heard) {
        if (round === 1 || sender === origin) continue;
        turn.fanInTargets.add(sender);
        followed.add(origin);
      }
      tellings = heard.filter(({ decision }) => decision.outboxEntries.length > 0);
    }
    turn.unrelatedCount += drafts.length - followed.size;
    for (const { sender: teller, decision: said } of tellings) leaveToOutbox(teller, said, turn);
  }

  /**
   * True where all of the turn is about somebody who waits for words that may be there any moment: of others that were released just now,
   * as the one was that has spoken.
   */
  expectsMoreMessages({ fanInTargets, unrelatedCount, unitByActor }: BatchBuilder): boolean {
    if (unrelatedCount > 0) return false;
    const since = this.clock.now() - RECENT_MS;
    const mayTell = (ref: ActorRef): boolean => {
      const entity = this.directory.findDeliverable(ref);
      return entity !== undefined && !entity.inBatch && entity.version > 0 && entity.lastUsedAt >= since;
    };
    for (const entity of fanInTargets) {
      const { snapshot } = unitByActor.get(entity) as UnitOfWork;
      if (entity.definition.expectsMessagesFrom?.(snapshot as unknown as Snapshot).some(mayTell)) return true;
    }
    return false;
  }

  private deliverAll({ sender, decision, origin }: SenderDecision, turn: BatchBuilder, heard: SenderDecision[]): void {
    const left = decision.outboxEntries.filter(({ output }) => {
      const posted = this.resolveOutput(output, turn);
      if (posted === null) return true;
      const taken = isQueued(posted.to, sender, turn) ? null : this.deliver(posted, turn, origin);
      if (taken === null) markQueued(posted.to, sender, turn);
      else heard.push(taken);
      return taken === null;
    });
    decision.outboxEntries = left;
  }

  private createView(byEntity: ReadonlyMap<LiveActor, UnitOfWork>): BatchView {
    return {
      peek: <Context = object>(ref: ActorRef) => {
        const entity = this.directory.getLive(ref);
        if (entity === undefined || entity.evicted) return undefined;
        const own = byEntity.get(entity);
        if (own === undefined && entity.inBatch) return undefined;
        const { version, snapshot, since } = own ?? entity;
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
  private deliver({ to, event, create }: AddressedEvent, turn: BatchBuilder, first: LiveActor): SenderDecision | null {
    const made = create ? this.enlistNew(to, turn) : this.enlist(to, turn);
    if (made === null) return null;
    const { actor } = made;
    let said: Decision;
    try {
      said = decideNext(made, this.envelopeFor(event));
    } catch {
      return null;
    }
    if (!turn.unitByActor.has(actor)) {
      actor.inBatch = true;
      turn.unitByActor.set(actor, made);
      turn.units.push(made);
      if (made.isNew) this.directory.register(actor);
    }
    return { sender: actor, decision: said, origin: first };
  }

  private enlist(ref: ActorRef, { unitByActor, units, maxUnits }: BatchBuilder): UnitOfWork | null {
    const entity = this.directory.findDeliverable(ref);
    if (entity === undefined) return null;
    const own = unitByActor.get(entity);
    if (!canEnlist(entity, own)) return null;
    if (own !== undefined) return own;
    return entity.inBatch || units.length >= maxUnits ? null : createUnitOfWork(entity, []);
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
    .map((said) => ({ sender: actor, decision: said, origin: actor }));

const isQueued = (to: ActorRef, teller: LiveActor, { queuedTargets }: BatchBuilder): boolean =>
  queuedTargets.get(teller)?.has(addressOf(to)) === true;

function markQueued(to: ActorRef, teller: LiveActor, { queuedTargets }: BatchBuilder): void {
  const found = queuedTargets.get(teller) ?? new Set();
  queuedTargets.set(teller, found.add(addressOf(to)));
}

/** All of it goes through the outbox, and while the turn is open nothing overtakes it. */
function leaveToOutbox(teller: LiveActor, { outboxEntries }: Decision, turn: BatchBuilder): void {
  for (const { output } of outboxEntries) if (output.type === 'actor.tell') markQueued(output.to, teller, turn);
}

/** It exists, with this turn at the latest, and all that waits for it is in this turn, or nothing does. */
const canEnlist = (entity: LiveActor, own: UnitOfWork | undefined): boolean =>
  (own ?? entity).version > 0 &&
  !entity.queued &&
  !entity.evicted &&
  !isIsolated(entity) &&
  entity.mailbox.length === 0;
