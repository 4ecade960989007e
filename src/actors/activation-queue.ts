import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { ActorRef } from '../machines/outputs.ts';
import { StoreUnavailable } from '../store/contract.ts';
import { NoSuchActor, Quarantined } from './contract.ts';
import type { Deadlines, Mailbox } from './deadlines.ts';
import type { Envelope } from './envelope.ts';
import { addressOf, type LiveActor } from './live-actor.ts';

/** Envelopes that wait for one actor to be loaded, in order of arrival. */
interface PendingMessages extends Mailbox {
  /** Resolves when they were handed to the actor, or rejected. */
  drained: Promise<void>;
}

/** Loads an actor; retries while `isWanted` returns true. */
type LoadActor = (ref: ActorRef, isWanted: () => boolean) => Promise<LiveActor | null>;

/** Activation queue (Akka: stash): holds the envelopes of actors that are not in memory, until they are loaded. */
export class ActivationQueue {
  readonly #pending = new Map<string, PendingMessages>();
  readonly #deadlines: Deadlines;
  readonly #load: LoadActor;
  readonly #enqueue: (actor: LiveActor) => void;

  constructor(parts: { deadlines: Deadlines; load: LoadActor; enqueue(actor: LiveActor): void }) {
    this.#deadlines = parts.deadlines;
    this.#load = parts.load;
    this.#enqueue = parts.enqueue;
  }

  pendingMailboxes(): Iterable<Mailbox> {
    return this.#pending.values();
  }

  get empty(): boolean {
    return this.#pending.size === 0;
  }

  sizes(): CollectionSizes {
    return { arrivals: this.#pending.size };
  }

  async whenDrained(): Promise<void> {
    await Promise.all([...this.#pending.values()].map(({ drained }) => drained));
  }

  /** Number of envelopes that wait for this actor. */
  pendingCount(ref: ActorRef): number {
    return this.#pending.size === 0 ? 0 : (this.#pending.get(addressOf(ref))?.mailbox.length ?? 0);
  }

  add(ref: ActorRef, envelope: Envelope): void {
    this.#pendingFor(ref).mailbox.push(envelope);
  }

  /** Puts the envelopes of an evicted actor before those that arrived later. */
  prepend(ref: ActorRef, envelopes: readonly Envelope[]): void {
    if (envelopes.length === 0) return;
    const pending = this.#pendingFor(ref);
    pending.mailbox = [...envelopes, ...pending.mailbox];
  }

  #pendingFor(ref: ActorRef): PendingMessages {
    const address = addressOf(ref);
    let pending = this.#pending.get(address);
    if (!pending) {
      pending = { mailbox: [], drained: Promise.resolve() };
      this.#pending.set(address, pending);
      pending.drained = this.#activate(ref, pending);
    }
    return pending;
  }

  async #activate(ref: ActorRef, pending: PendingMessages): Promise<void> {
    const isWanted = () =>
      this.#deadlines.rejectExpired(pending, new StoreUnavailable('the actor could not be loaded'));
    const outcome = await this.#load(ref, isWanted).then(
      (actor) => activatedOrError(actor, ref),
      (error: Error) => error,
    );
    this.#pending.delete(addressOf(ref));
    const envelopes = pending.mailbox.filter(({ answered }) => !answered);
    if (outcome instanceof Error) for (const envelope of envelopes) envelope.reject(outcome);
    else {
      outcome.mailbox = envelopes.concat(outcome.mailbox);
      this.#enqueue(outcome);
    }
  }
}

function activatedOrError(actor: LiveActor | null, ref: ActorRef): LiveActor | Error {
  if (actor === null || actor.version === 0) return new NoSuchActor(addressOf(ref));
  return actor.quarantine === null ? actor : new Quarantined(actor.quarantine);
}
