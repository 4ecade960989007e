import type { Clock } from '../domain/clock.ts';
import type { EpochMs } from '../domain/values.ts';
import type { ActorRef, TellEvent } from '../machines/outputs.ts';
import { type Draft, draft, type Step, step } from './draft.ts';
import { addressOf, type Entity, type Letter, newLetter } from './entity.ts';
import { messageOf } from './tell.ts';

/** A turn in the making. */
interface Gathering {
  drafts: Draft[];
  byEntity: Map<Entity, Draft>;
  /** Drafts at most. */
  room: number;
  /** Whom a teller's output waits for in the outbox: of several things that one is told the later ones must not come first. */
  waiting: Map<Entity, Set<string>>;
}

/** A step that told somebody something. */
interface Telling {
  teller: Entity;
  said: Step;
}

/** A device's word reaches its command, and what it means the command's plan; what that tells goes through the outbox: a turn ends. */
const ROUNDS = 2;

/**
 * What an actor tells another is decided in the same turn where the other is at hand: both are then kept by one statement,
 * or neither, and no outbox row is written only to be deleted. Whatever stands in the way leaves the output to the outbox.
 */
export class Companions {
  private readonly clock: Clock;
  private readonly find: (ref: ActorRef) => Entity | undefined;
  private readonly most: number;

  /** `find` answers a live actor to whom nothing is on its way. */
  constructor(parts: { clock: Clock; find(ref: ActorRef): Entity | undefined; most: number }) {
    this.clock = parts.clock;
    this.find = parts.find;
    this.most = parts.most;
  }

  /**
   * Lets those who are told something in `drafts` decide it, behind all that waits for them, and then those whom these tell;
   * who is not in the turn yet joins it. Answers whether any was told.
   */
  join(drafts: Draft[]): boolean {
    let tellings = drafts.flatMap((made) => (made.entity.singly ? [] : tellingsOf(made)));
    if (tellings.length === 0) return false;
    const byEntity = new Map(drafts.map((made) => [made.entity, made]));
    const turn: Gathering = { drafts, byEntity, room: drafts.length + this.most, waiting: new Map() };
    let any = false;
    for (let round = 1; round <= ROUNDS && tellings.length > 0; round += 1) {
      const heard: Telling[] = [];
      for (const telling of tellings) any = this.hearAll(telling, turn, heard) || any;
      tellings = heard.filter(({ said }) => said.durable.length > 0);
    }
    return any;
  }

  private hearAll({ teller, said }: Telling, turn: Gathering, heard: Telling[]): boolean {
    const waiting = turn.waiting.get(teller) ?? new Set();
    turn.waiting.set(teller, waiting);
    const left = said.durable.filter(({ output }) => {
      if (output.type !== 'actor.tell') return true;
      const address = addressOf(output.to);
      const taken = waiting.has(address) ? null : this.hear(output.to, output.event, turn);
      if (taken === null) waiting.add(address);
      else heard.push(taken);
      return taken === null;
    });
    const any = left.length < said.durable.length;
    said.durable = left;
    return any;
  }

  /** Null where the outbox has to tell it; what a machine throws on is to fail by itself. */
  private hear(to: ActorRef, event: TellEvent, { drafts, byEntity, room }: Gathering): Telling | null {
    const entity = this.find(to);
    if (entity === undefined || !isAtHand(entity)) return null;
    const own = byEntity.get(entity);
    if (own === undefined && (entity.busy || drafts.length >= room)) return null;
    const made = own ?? draft(entity, []);
    let said: Step;
    try {
      said = step(made, letterOf(event, this.clock.now()));
    } catch {
      return null;
    }
    if (own === undefined) {
      entity.busy = true;
      byEntity.set(entity, made);
      drafts.push(made);
    }
    return { teller: entity, said };
  }
}

const tellingsOf = ({ entity, steps }: Draft): Telling[] =>
  steps.filter(({ durable }) => durable.length > 0).map((said) => ({ teller: entity, said }));

/** All that waits for it is in this turn, or nothing does. */
const isAtHand = (entity: Entity): boolean =>
  entity.version > 0 &&
  !entity.ready &&
  !entity.stale &&
  !entity.singly &&
  entity.quarantine === null &&
  entity.mailbox.length === 0;

const nothing = (): void => {};

const letterOf = (event: TellEvent, now: EpochMs): Letter =>
  newLetter({
    event: messageOf(event, now),
    sentAt: now,
    patienceMs: Number.POSITIVE_INFINITY,
    companion: true,
    resolve: nothing,
    reject: nothing,
  });
