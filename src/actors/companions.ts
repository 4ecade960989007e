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
}

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
   * Lets those who are told something in `drafts` decide it, behind all that waits for them; who is not in the turn yet
   * joins it. Answers whether any was told. What they tell in their turn goes through the outbox: a turn ends.
   */
  join(drafts: Draft[]): boolean {
    const tellers = drafts.filter(({ entity, steps }) => !entity.singly && steps.some(tells));
    if (tellers.length === 0) return false;
    const byEntity = new Map(drafts.map((made) => [made.entity, made]));
    const turn = { drafts, byEntity, room: drafts.length + this.most };
    const told = tellers.map((teller) => this.hearAll(teller.steps.filter(tells), turn));
    return told.includes(true);
  }

  private hearAll(said: readonly Step[], turn: Gathering): boolean {
    // Of several things that one is told the later ones must not come first.
    const waiting = new Set<string>();
    let any = false;
    for (const one of said) {
      const left = one.durable.filter(({ output }) => {
        if (output.type !== 'actor.tell') return true;
        const address = addressOf(output.to);
        if (!waiting.has(address) && this.hear(output.to, output.event, turn)) return false;
        waiting.add(address);
        return true;
      });
      any ||= left.length < one.durable.length;
      one.durable = left;
    }
    return any;
  }

  /** False where the outbox has to tell it; what a machine throws on is to fail by itself. */
  private hear(to: ActorRef, event: TellEvent, { drafts, byEntity, room }: Gathering): boolean {
    const entity = this.find(to);
    if (entity === undefined || !isAtHand(entity)) return false;
    const own = byEntity.get(entity);
    if (own === undefined && (entity.busy || drafts.length >= room)) return false;
    const made = own ?? draft(entity, []);
    try {
      step(made, letterOf(event, this.clock.now()));
    } catch {
      return false;
    }
    if (own === undefined) {
      entity.busy = true;
      byEntity.set(entity, made);
      drafts.push(made);
    }
    return true;
  }
}

const tells = ({ durable, letter }: Step): boolean => durable.length > 0 && !letter.companion;

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
