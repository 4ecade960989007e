import type { Clock } from '../domain/clock.ts';
import type { MachineEvent, Snapshot } from '../machines/definition.ts';
import type { ActorRef, DurableOutput, OutsideOutput } from '../machines/outputs.ts';
import type { Committed, Posted, TurnView } from './contract.ts';
import { type Draft, draft, type Step, step } from './draft.ts';
import { addressOf, type Entity } from './entity.ts';
import { Letter } from './letters.ts';
import { messageOf } from './tell.ts';

/** A turn in the making. */
export interface Gathering {
  drafts: Draft[];
  byEntity: Map<Entity, Draft>;
  view: TurnView;
  /** Drafts at most. */
  room: number;
  /** Some of its actors were told something by others of them. */
  whole: boolean;
  /** Who was told by who was told itself, as a plan is by its commands: others may be about to tell it too. */
  shared: Set<Entity>;
  /** Gathered ones that told none of those. */
  strangers: number;
  /** Whom a teller's output waits for in the outbox: of several things that one is told the later ones must not come first. */
  waiting: Map<Entity, Set<string>>;
}

/** A step that told somebody something. */
interface Telling {
  teller: Entity;
  said: Step;
  /** With whom it began: who was gathered. */
  first: Entity;
}

/** The actors beside those of a turn, as the supervisor holds them. */
export interface Others {
  live(ref: ActorRef): Entity | undefined;
  /** A live actor to whom nothing is on its way. */
  find(ref: ActorRef): Entity | undefined;
  /** Nobody is known by it here. */
  isFree(ref: ActorRef): boolean;
  /** A new actor, of which nobody knows until it is admitted. */
  make(ref: ActorRef): Entity;
  admit(entity: Entity): void;
  /** What an output comes to, where memory tells; null where it takes more. */
  atHand(output: OutsideOutput, turn: TurnView): Posted | null;
}

/**
 * A device's word reaches its command, that command's plan, the commands of the steps which follow, and with what became of them the
 * plan again; what is told then goes through the outbox: a turn ends.
 */
const ROUNDS = 4;
/** Who answers at once does within this of what was released. */
const JUST_MS = 5;

/**
 * What an actor tells another is decided in the same turn where the other is at hand: both are then kept by one statement,
 * or neither, and no outbox row is written only to be deleted. So is what somebody outside the runtime makes of an output, where memory
 * tells that: an actor that is new with it begins in this turn. Whatever stands in the way leaves the output to the outbox.
 */
export class Companions {
  private readonly clock: Clock;
  private readonly others: Others;
  private readonly most: number;

  constructor(parts: { clock: Clock; others: Others; most: number }) {
    this.clock = parts.clock;
    this.others = parts.others;
    this.most = parts.most;
  }

  gathering(): Gathering {
    const byEntity = new Map<Entity, Draft>();
    const view = this.viewOf(byEntity);
    return {
      drafts: [],
      byEntity,
      view,
      room: this.most,
      whole: false,
      shared: new Set(),
      strangers: 0,
      waiting: new Map(),
    };
  }

  /**
   * Takes `drafts` into the turn, and lets those who are told something in them decide it, behind all that waits for them, and then
   * those whom these tell; who is not in the turn yet joins it.
   */
  join(turn: Gathering, drafts: readonly Draft[]): void {
    turn.room += drafts.length;
    for (const made of drafts) {
      turn.drafts.push(made);
      turn.byEntity.set(made.entity, made);
    }
    let tellings = drafts.flatMap((made) => (isApart(made.entity) ? [] : tellingsOf(made)));
    const followed = new Set<Entity>();
    for (let round = 1; round <= ROUNDS && tellings.length > 0; round += 1) {
      const heard: Telling[] = [];
      for (const telling of tellings) this.hearAll(telling, turn, heard);
      if (heard.length > 0) turn.whole = true;
      for (const { teller, first } of heard) {
        if (round === 1 || teller === first) continue;
        turn.shared.add(teller);
        followed.add(first);
      }
      tellings = heard.filter(({ said }) => said.durable.length > 0);
    }
    turn.strangers += drafts.length - followed.size;
    for (const { teller, said } of tellings) leave(teller, said, turn);
  }

  /**
   * True where all of the turn is about somebody who waits for words that may be there any moment: of others that were released just now,
   * as the one was that has spoken.
   */
  expects({ shared, strangers, byEntity }: Gathering): boolean {
    if (strangers > 0) return false;
    const since = this.clock.now() - JUST_MS;
    const mayTell = (ref: ActorRef): boolean => {
      const entity = this.others.find(ref);
      return entity !== undefined && !entity.busy && entity.version > 0 && entity.usedAt >= since;
    };
    for (const entity of shared) {
      const { snapshot } = byEntity.get(entity) as Draft;
      if (entity.definition.awaits?.(snapshot as unknown as Snapshot).some(mayTell)) return true;
    }
    return false;
  }

  private hearAll({ teller, said, first }: Telling, turn: Gathering, heard: Telling[]): void {
    const left = said.durable.filter(({ output }) => {
      const posted = this.comesTo(output, turn);
      if (posted === null) return true;
      const taken = waits(posted.to, teller, turn) ? null : this.hear(posted, turn, first);
      if (taken === null) wait(posted.to, teller, turn);
      else heard.push(taken);
      return taken === null;
    });
    said.durable = left;
  }

  private viewOf(byEntity: ReadonlyMap<Entity, Draft>): TurnView {
    return {
      peek: <Context = object>(ref: ActorRef) => {
        const entity = this.others.live(ref);
        if (entity === undefined || entity.stale) return undefined;
        const own = byEntity.get(entity);
        if (own === undefined && entity.busy) return undefined;
        const { version, snapshot, since } = own ?? entity;
        return version > 0 ? ({ ref, version, snapshot, since } as unknown as Committed<Context>) : undefined;
      },
    };
  }

  private comesTo(output: DurableOutput, { view }: Gathering): Posted | null {
    switch (output.type) {
      case 'actor.tell':
        return { to: output.to, event: messageOf(output.event, this.clock.now()) };
      case 'commands.tell':
      case 'plans.tell':
        return null;
      default:
        try {
          return this.others.atHand(output, view);
        } catch {
          return null;
        }
    }
  }

  /** Null where the outbox has to tell it; what a machine throws on is to fail by itself. */
  private hear({ to, event, create }: Posted, turn: Gathering, first: Entity): Telling | null {
    const made = create ? this.newcomer(to, turn) : this.companion(to, turn);
    if (made === null) return null;
    const { entity } = made;
    let said: Step;
    try {
      said = step(made, this.letterOf(event));
    } catch {
      return null;
    }
    if (!turn.byEntity.has(entity)) {
      entity.busy = true;
      turn.byEntity.set(entity, made);
      turn.drafts.push(made);
      if (made.newcomer) this.others.admit(entity);
    }
    return { teller: entity, said, first };
  }

  private companion(ref: ActorRef, { byEntity, drafts, room }: Gathering): Draft | null {
    const entity = this.others.find(ref);
    if (entity === undefined) return null;
    const own = byEntity.get(entity);
    if (!isAtHand(entity, own)) return null;
    if (own !== undefined) return own;
    return entity.busy || drafts.length >= room ? null : draft(entity, []);
  }

  private newcomer(ref: ActorRef, { drafts, room }: Gathering): Draft | null {
    if (drafts.length >= room || !this.others.isFree(ref)) return null;
    return { ...draft(this.others.make(ref), []), newcomer: true };
  }

  private letterOf(event: MachineEvent): Letter {
    return new Letter(event, {}, this.clock.now(), Number.POSITIVE_INFINITY);
  }
}

/** Within a turn it neither tells nor is told: a culprit is looked for, or it is quarantined. */
const isApart = ({ singly, quarantine }: Entity): boolean => singly || quarantine !== null;

const tellingsOf = ({ entity, steps }: Draft): Telling[] =>
  steps.filter(({ durable }) => durable.length > 0).map((said) => ({ teller: entity, said, first: entity }));

const waits = (to: ActorRef, teller: Entity, { waiting }: Gathering): boolean =>
  waiting.get(teller)?.has(addressOf(to)) === true;

function wait(to: ActorRef, teller: Entity, { waiting }: Gathering): void {
  const found = waiting.get(teller) ?? new Set();
  waiting.set(teller, found.add(addressOf(to)));
}

/** All of it goes through the outbox, and while the turn is open nothing overtakes it. */
function leave(teller: Entity, { durable }: Step, turn: Gathering): void {
  for (const { output } of durable) if (output.type === 'actor.tell') wait(output.to, teller, turn);
}

/** It exists, with this turn at the latest, and all that waits for it is in this turn, or nothing does. */
const isAtHand = (entity: Entity, own: Draft | undefined): boolean =>
  (own ?? entity).version > 0 && !entity.ready && !entity.stale && !isApart(entity) && entity.mailbox.length === 0;
