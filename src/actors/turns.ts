import type { Clock } from '../domain/clock.ts';
import type { Lease } from '../domain/lease.ts';
import type { Log } from '../domain/log.ts';
import type { Sizes } from '../domain/sizes.ts';
import {
  type ActorStore,
  CommitUnknown,
  DataRefused,
  IdempotencyConflict,
  type OutboxKey,
  StoreUnavailable,
} from '../store/contract.ts';
import { Companions, type Gathering, type Others } from './companions.ts';
import { ActorExists, EventFailed } from './contract.ts';
import { close, type Draft, draft } from './draft.ts';
import { addressOf, type Entity, takeLetters } from './entity.ts';
import { Keeper } from './keeper.ts';
import type { Letter } from './letters.ts';
import type { Limits } from './limits.ts';
import type { RuntimeMeter } from './meter.ts';
import { OpenTurn } from './open-turn.ts';
import { Overdue } from './overdue.ts';
import { isDevices, partPatient } from './patience.ts';

/** What becomes of actors when a turn is over; the supervisor does it. */
export interface TurnEnd {
  /** The draft is durable: adopt it, tell the world, answer the senders. */
  release(draft: Draft): void;
  /** The machine threw on this letter. */
  threw(entity: Entity, letter: Letter, error: Error): void;
  /** The row is not what was read, or nobody knows: the entity must be loaded again before its next letter. */
  forget(entity: Entity): void;
  /** A commit may or may not have happened: what it told others is swept from the outbox. */
  unknown(): void;
  /** What was spent in it. */
  dropTimers(draft: Draft): void;
}

/** What is written together. */
interface Turn {
  drafts: Draft[];
  /** Some of its actors were told something by others of them: all of it is kept, or nothing. */
  whole: boolean;
}

const MAX_BACKOFF_MS = 1_000;
const MAX_ATTEMPTS = 5;

/**
 * The runtime's heartbeat: takes mailboxes that have letters, `turnActors` at a time, decides, writes all of it in one
 * statement, and releases in the order the turns were gathered. While one turn commits, the next gathers.
 */
export class Turns {
  private readonly ready: Entity[] = [];
  private inFlight = 0;
  private scheduled = false;
  /** A turn is gathered and takes more in. */
  private open: OpenTurn | null = null;
  private stopped = false;
  private pausedUntil = 0;
  private backoffMs = 0;
  private released: Promise<void> = Promise.resolve();
  private readonly idle = new Set<() => void>();

  private readonly companions: Companions;
  private readonly keeper: Keeper;
  private readonly overdue: Overdue;
  private readonly end: TurnEnd;
  private readonly clock: Clock;
  private readonly lease: Lease;
  private readonly limits: Limits;
  private readonly log: Log;
  private readonly meter: RuntimeMeter;
  private readonly maxInFlight: number;

  constructor(parts: {
    store: ActorStore;
    end: TurnEnd;
    clock: Clock;
    lease: Lease;
    limits: Limits;
    log: Log;
    meter: RuntimeMeter;
    maxInFlight: number;
    /** Where letters wait for their actor to be loaded. */
    arrivals(): Iterable<{ mailbox: Letter[] }>;
    others: Others;
  }) {
    const { clock, limits, others } = parts;
    this.companions = new Companions({ clock, others, most: limits.turnCompanions });
    this.keeper = new Keeper(parts.store, parts.lease, parts.limits.devicePatienceMs);
    this.overdue = new Overdue(parts.clock, parts.limits, () => [...this.ready, ...parts.arrivals()]);
    this.end = parts.end;
    this.clock = parts.clock;
    this.lease = parts.lease;
    this.limits = parts.limits;
    this.log = parts.log;
    this.meter = parts.meter;
    this.maxInFlight = parts.maxInFlight;
  }

  /** The entity has letters: it takes part in the next turn. */
  post(entity: Entity): void {
    if (entity.ready || entity.busy || entity.mailbox.length === 0) return;
    // It was let go while it was in a turn, and what comes back of that is for who was loaded in its place.
    if (entity.stale) {
      this.end.forget(entity);
      return;
    }
    entity.ready = true;
    this.ready.push(entity);
    this.schedule();
  }

  /** True while the store refuses and turns wait. */
  get paused(): boolean {
    return this.backoffMs > 0 && (this.ready.length > 0 || this.inFlight > 0);
  }

  sizes(): Sizes {
    return { actors_ready: this.ready.length, ...this.overdue.sizes() };
  }

  /** Resolves when nothing waits and nothing is in flight. */
  drained(): Promise<void> {
    if (this.ready.length === 0 && this.inFlight === 0) return Promise.resolve();
    return new Promise((resolve) => this.idle.add(resolve));
  }

  /** No further turn is begun; those in flight finish. */
  stop(): void {
    this.stopped = true;
    this.open?.end();
    this.keeper.stop();
  }

  private schedule(): void {
    if (this.stopped || this.ready.length === 0) return;
    if (this.open !== null) {
      this.open.takeIn();
      return;
    }
    if (this.scheduled || this.inFlight >= this.maxInFlight) return;
    this.scheduled = true;
    const pause = this.pausedUntil - performance.now();
    const run = () => {
      this.scheduled = false;
      this.begin();
    };
    if (pause > 0) setTimeout(run, pause);
    else setImmediate(run); // what the same tick of the event loop brings in goes along
  }

  private begin(): void {
    if (this.stopped || this.inFlight >= this.maxInFlight) return;
    const turn = this.companions.gathering();
    this.companions.join(turn, this.gather());
    if (turn.drafts.length > 0) {
      this.inFlight += 1;
      this.open = new OpenTurn(turn, {
        companions: this.companions,
        most: this.limits.turnActors,
        gather: () => this.gather(),
        write: (filled) => this.write(filled),
      });
      this.open.fill();
    }
    this.tellIdle();
  }

  private write({ drafts, whole }: Gathering): void {
    this.open = null;
    drafts.forEach(close);
    this.overdue.begins(drafts);
    this.schedule();
    this.run({ drafts, whole }).finally(() => {
      this.inFlight -= 1;
      this.overdue.ends(drafts);
      this.schedule();
      this.tellIdle();
    });
  }

  private tellIdle(): void {
    if (this.ready.length > 0 || this.inFlight > 0) return;
    for (const resolve of this.idle) resolve();
    this.idle.clear();
  }

  private gather(): Draft[] {
    const drafts: Draft[] = [];
    let events = 0;
    let taken = 0;
    for (; taken < this.ready.length; taken += 1) {
      if (drafts.length >= this.limits.turnActors || events >= this.limits.turnEvents) break;
      const entity = this.ready[taken] as Entity;
      entity.ready = false;
      const letters = takeLetters(entity, this.limits.turnEvents);
      if (letters.length === 0) continue;
      events += letters.length;
      drafts.push(this.decide(entity, letters));
    }
    this.ready.splice(0, taken);
    return drafts;
  }

  private decide(entity: Entity, letters: readonly Letter[]): Draft {
    const made = draft(entity, letters);
    for (const { letter, error } of made.failed) this.end.threw(entity, letter, error);
    entity.busy = true;
    return made;
  }

  private async run(turn: Turn): Promise<void> {
    const before = this.released;
    let done = () => {};
    this.released = new Promise((resolve) => {
      done = resolve;
    });
    try {
      await this.commit(turn, before);
    } catch (error) {
      // A bug outside any actor: nothing is known of the turn, so nothing of it is believed.
      await before;
      this.log.error({ err: error }, 'a turn failed');
      for (const made of turn.drafts) this.giveUp(made, new EventFailed('the turn failed'));
    } finally {
      done();
    }
  }

  /** Commits and releases; a batch refused for its data is halved until the culprit stands alone. */
  private async commit(turn: Turn, before: Promise<void>): Promise<void> {
    const { drafts, whole } = turn;
    const actors = drafts.flatMap((made) => (made.commit ? [made.commit] : []));
    const delivered: OutboxKey[] = drafts.flatMap((made) => made.delivered);
    const started = performance.now();
    let lost: ReadonlySet<string> = new Set();
    try {
      if (actors.length > 0 || delivered.length > 0) {
        const rivals = await this.keeper.keep({ actors, delivered, whole }, () => this.away());
        if (rivals.length > 0) lost = new Set(rivals.map(addressOf));
      }
    } catch (error) {
      if (error instanceof DataRefused) this.overdue.answered();
      await before;
      if (error instanceof DataRefused && whole) await this.commit(this.apart(drafts), before);
      else await this.refused(drafts, error, before);
      return;
    }
    this.overdue.answered();
    await before;
    if (!this.lease.valid()) return this.abandon(drafts);
    if (whole && lost.size > 0 && lost.size === actors.length) {
      await this.commit(this.apart(drafts), before);
      return;
    }
    this.backoffMs = 0;
    this.meter.turn(
      actors.length,
      drafts.reduce((sum, made) => sum + made.steps.length, 0),
      performance.now() - started,
    );
    for (const made of drafts) {
      if (lost.size > 0 && made.commit && lost.has(addressOf(made.entity.ref))) this.conflict(made);
      else this.release(made);
    }
  }

  /** Another process may be the active one: nothing is released or answered as done, and no other turn begins. */
  private abandon(drafts: readonly Draft[]): void {
    this.stop();
    for (const made of drafts) this.giveUp(made, new CommitUnknown('the lease ended during the commit'));
  }

  /** The same letters decided anew, each actor by itself: what one tells another goes through the outbox. */
  private apart(drafts: readonly Draft[]): Turn {
    for (const { entity, newcomer } of drafts) if (newcomer) this.end.forget(entity);
    const again = drafts.flatMap((made) => (made.newcomer ? [] : [this.decide(made.entity, unanswered(made))]));
    again.forEach(close);
    return { drafts: again, whole: false };
  }

  private release(made: Draft): void {
    const { entity } = made;
    entity.busy = false;
    if (made.spent.length > 0) this.end.dropTimers(made);
    this.end.release(made);
    this.post(entity);
  }

  private async refused(drafts: Draft[], error: unknown, before: Promise<void>): Promise<void> {
    if (error instanceof DataRefused) {
      if (drafts.length === 1) return this.culprit(drafts[0] as Draft, error);
      const half = drafts.length >> 1;
      await this.commit({ drafts: drafts.slice(0, half), whole: false }, before);
      await this.commit({ drafts: drafts.slice(half), whole: false }, before);
      return;
    }
    if (error instanceof CommitUnknown) {
      this.log.warn({ err: error, actors: drafts.length }, 'nobody knows of a commit: its actors are loaded again');
      for (const made of drafts) this.giveUp(made, error);
      this.end.unknown();
      return;
    }
    if (error instanceof StoreUnavailable) {
      this.away();
      const now = this.clock.now();
      for (const made of drafts) this.unwind(made, now, error);
      return;
    }
    throw error;
  }

  /** Turns wait a while, longer each time. */
  private away(): void {
    this.backoffMs = Math.min(MAX_BACKOFF_MS, Math.max(25, this.backoffMs * 2));
    this.pausedUntil = performance.now() + this.backoffMs * (0.5 + Math.random() / 2);
    this.meter.storeAway();
  }

  /** Nothing of it was kept: the letters go back to the front, but for those whose sender waits no longer. */
  private unwind(made: Draft, now: number, why: Error): void {
    const { entity } = made;
    entity.busy = false;
    if (made.newcomer) {
      this.end.forget(entity);
      return;
    }
    const { on, over } = partPatient(unanswered(made).concat(entity.mailbox), now);
    for (const letter of over) letter.reject(why);
    entity.mailbox = on;
    this.post(entity);
  }

  private conflict(made: Draft): void {
    const { entity } = made;
    entity.busy = false;
    if (entity.version > 0) {
      this.meter.conflict();
      this.log.warn({ actor: addressOf(entity.ref), version: entity.version }, 'version conflict; reloading actor');
    }
    const back: Letter[] = [];
    for (const letter of unanswered(made)) {
      letter.attempts += 1;
      if (entity.version === 0) letter.reject(new ActorExists('it exists already'));
      else if (letter.attempts > MAX_ATTEMPTS) letter.reject(new StoreUnavailable('the actor changes elsewhere'));
      else back.push(letter);
    }
    entity.mailbox = back.concat(entity.mailbox);
    this.end.forget(entity);
  }

  /** The one draft that the store refuses for its data. */
  private culprit(made: Draft, error: DataRefused): void {
    const { entity } = made;
    entity.busy = false;
    if (made.steps.length > 1) {
      entity.singly = true;
      entity.mailbox = unanswered(made).concat(entity.mailbox);
      this.post(entity);
      return;
    }
    entity.singly = false;
    for (const { letter } of made.steps) {
      if (error instanceof IdempotencyConflict) {
        letter.reject(error);
        continue;
      }
      this.log.error(
        { actor: addressOf(entity.ref), event: letter.event.type, sqlState: error.sqlState },
        'the store refused an event for its data',
      );
      this.meter.refusedData();
      this.end.threw(entity, letter, new EventFailed('the store refused it for its data', { cause: error }));
    }
    if (entity.version === 0 && entity.mailbox.length === 0) this.end.forget(entity);
    this.post(entity);
  }

  private giveUp(made: Draft, why: Error): void {
    const { entity } = made;
    entity.busy = false;
    for (const { letter } of made.steps) letter.reject(why);
    if (made.steps.some(({ letter }) => isDevices(letter))) {
      const [overtaking, others] = partition(entity.mailbox, isDevices);
      for (const letter of overtaking) letter.reject(why);
      entity.mailbox = others;
    }
    this.end.forget(entity);
  }
}

function partition<T>(all: readonly T[], holds: (one: T) => boolean): [T[], T[]] {
  const yes: T[] = [];
  const no: T[] = [];
  for (const one of all) (holds(one) ? yes : no).push(one);
  return [yes, no];
}

/** The letters whose senders still wait; what another actor of the turn told is its own to tell again. */
const unanswered = ({ steps }: Draft): Letter[] =>
  steps.map(({ letter }) => letter).filter(({ answered, companion }) => !answered && !companion);
