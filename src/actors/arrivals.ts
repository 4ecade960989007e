import type { Clock } from '../domain/clock.ts';
import type { Sizes } from '../domain/sizes.ts';
import type { ActorRef } from '../machines/outputs.ts';
import { StoreUnavailable } from '../store/contract.ts';
import { NoSuchActor, Quarantined } from './contract.ts';
import { addressOf, type Entity } from './entity.ts';
import type { Letter } from './letters.ts';
import { partPatient } from './patience.ts';

/** The letters that wait for one actor to be loaded, in their order. */
interface Room {
  mailbox: Letter[];
  /** Resolves when they were handed over, or given back. */
  filled: Promise<void>;
}

/** Finds an actor, while somebody waits for it. */
type Find = (ref: ActorRef, wanted: () => boolean) => Promise<Entity | null>;

/** Letters to actors that are not in memory: kept in their order until the actor is there. */
export class Arrivals {
  private readonly open = new Map<string, Room>();
  private readonly clock: Clock;
  private readonly find: Find;
  private readonly post: (entity: Entity) => void;

  constructor(parts: { clock: Clock; find: Find; post(entity: Entity): void }) {
    this.clock = parts.clock;
    this.find = parts.find;
    this.post = parts.post;
  }

  rooms(): Iterable<Room> {
    return this.open.values();
  }

  get empty(): boolean {
    return this.open.size === 0;
  }

  sizes(): Sizes {
    return { arrivals: this.open.size };
  }

  async settled(): Promise<void> {
    await Promise.all([...this.open.values()].map(({ filled }) => filled));
  }

  /** How many wait for it already. */
  waitingFor(ref: ActorRef): number {
    return this.open.size === 0 ? 0 : (this.open.get(addressOf(ref))?.mailbox.length ?? 0);
  }

  /** They come behind those that wait already. */
  add(ref: ActorRef, letter: Letter): void {
    this.roomOf(ref).mailbox.push(letter);
  }

  /** They were there before: an actor that has to be loaded again had them. */
  putBack(ref: ActorRef, letters: readonly Letter[]): void {
    if (letters.length === 0) return;
    const room = this.roomOf(ref);
    room.mailbox = [...letters, ...room.mailbox];
  }

  private roomOf(ref: ActorRef): Room {
    const address = addressOf(ref);
    let room = this.open.get(address);
    if (!room) {
      room = { mailbox: [], filled: Promise.resolve() };
      this.open.set(address, room);
      room.filled = this.fill(ref, room);
    }
    return room;
  }

  private async fill(ref: ActorRef, room: Room): Promise<void> {
    const outcome = await this.find(ref, () => this.isWanted(room)).then(
      (entity) => receive(entity, ref),
      (error: Error) => error,
    );
    this.open.delete(addressOf(ref));
    const letters = room.mailbox.filter(({ answered }) => !answered);
    if (outcome instanceof Error) for (const letter of letters) letter.reject(outcome);
    else {
      outcome.mailbox = letters.concat(outcome.mailbox);
      this.post(outcome);
    }
  }

  /** Asked while the store is away: whoever waited too long is told so. */
  private isWanted(room: Room): boolean {
    const { on, over } = partPatient(room.mailbox, this.clock.now());
    for (const letter of over) letter.reject(new StoreUnavailable('its actor could not be loaded'));
    room.mailbox = on;
    return on.length > 0;
  }
}

function receive(entity: Entity | null, ref: ActorRef): Entity | Error {
  if (entity === null || entity.version === 0) return new NoSuchActor(addressOf(ref));
  return entity.quarantine === null ? entity : new Quarantined(entity.quarantine);
}
