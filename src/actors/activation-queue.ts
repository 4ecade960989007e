import type { Clock } from '../domain/clock.ts';
import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { ActorRef } from '../machines/outputs.ts';
import { StoreUnavailable } from '../store/contract.ts';
import { NoSuchActor, Quarantined } from './contract.ts';
import { splitExpired } from './deadlines.ts';
import type { Envelope } from './envelope.ts';
import { addressOf, type LiveActor } from './live-actor.ts';

/** The letters that wait for one actor to be loaded, in their order. */
interface PendingMessages {
  mailbox: Envelope[];
  /** Resolves when they were handed over, or given back. */
  drained: Promise<void>;
}

/** Finds an actor, while somebody waits for it. */
type LoadActor = (ref: ActorRef, wanted: () => boolean) => Promise<LiveActor | null>;

/** Letters to actors that are not in memory: kept in their order until the actor is there. */
export class ActivationQueue {
  private readonly pending = new Map<string, PendingMessages>();
  private readonly clock: Clock;
  private readonly load: LoadActor;
  private readonly enqueue: (entity: LiveActor) => void;

  constructor(parts: { clock: Clock; find: LoadActor; post(entity: LiveActor): void }) {
    this.clock = parts.clock;
    this.load = parts.find;
    this.enqueue = parts.post;
  }

  pendingMailboxes(): Iterable<PendingMessages> {
    return this.pending.values();
  }

  get empty(): boolean {
    return this.pending.size === 0;
  }

  sizes(): CollectionSizes {
    return { arrivals: this.pending.size };
  }

  async whenDrained(): Promise<void> {
    await Promise.all([...this.pending.values()].map(({ drained }) => drained));
  }

  /** How many wait for it already. */
  pendingCount(ref: ActorRef): number {
    return this.pending.size === 0 ? 0 : (this.pending.get(addressOf(ref))?.mailbox.length ?? 0);
  }

  /** They come behind those that wait already. */
  add(ref: ActorRef, letter: Envelope): void {
    this.pendingFor(ref).mailbox.push(letter);
  }

  /** They were there before: an actor that has to be loaded again had them. */
  prepend(ref: ActorRef, letters: readonly Envelope[]): void {
    if (letters.length === 0) return;
    const room = this.pendingFor(ref);
    room.mailbox = [...letters, ...room.mailbox];
  }

  private pendingFor(ref: ActorRef): PendingMessages {
    const address = addressOf(ref);
    let room = this.pending.get(address);
    if (!room) {
      room = { mailbox: [], drained: Promise.resolve() };
      this.pending.set(address, room);
      room.drained = this.activate(ref, room);
    }
    return room;
  }

  private async activate(ref: ActorRef, room: PendingMessages): Promise<void> {
    const outcome = await this.load(ref, () => this.rejectExpired(room)).then(
      (entity) => activatedOrError(entity, ref),
      (error: Error) => error,
    );
    this.pending.delete(addressOf(ref));
    const letters = room.mailbox.filter(({ answered }) => !answered);
    if (outcome instanceof Error) for (const letter of letters) letter.reject(outcome);
    else {
      outcome.mailbox = letters.concat(outcome.mailbox);
      this.enqueue(outcome);
    }
  }

  /** Asked while the store is away: whoever waited too long is told so. */
  private rejectExpired(room: PendingMessages): boolean {
    const { on, over } = splitExpired(room.mailbox, this.clock.now());
    for (const letter of over) letter.reject(new StoreUnavailable('its actor could not be loaded'));
    room.mailbox = on;
    return on.length > 0;
  }
}

function activatedOrError(entity: LiveActor | null, ref: ActorRef): LiveActor | Error {
  if (entity === null || entity.version === 0) return new NoSuchActor(addressOf(ref));
  return entity.quarantine === null ? entity : new Quarantined(entity.quarantine);
}
