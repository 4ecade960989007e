import type { AnyMachineSnapshot } from 'xstate';
import type { EpochMs } from '../domain/values.ts';
import type { MachineDefinition, MachineEvent, Snapshot } from '../machines/definition.ts';
import type { ActorRef } from '../machines/outputs.ts';
import type { OutboxKey } from '../store/contract.ts';
import type { Committed, Reply, SendOptions } from './contract.ts';
import { blank } from './decide.ts';

/** An event on its way, with whoever waits for what becomes of it. */
export interface Letter {
  event: MachineEvent;
  options: SendOptions | undefined;
  /** When it was put in; it is given back unread after `patienceMs`. */
  sentAt: EpochMs;
  patienceMs: number;
  /** The outbox row it answers. */
  delivers: OutboxKey | null;
  /** The timer that fired, removed with the transition. */
  timer: string | null;
  /** Said by another actor in this very turn: gone with it where it is not kept, and said again. */
  companion: boolean;
  attempts: number;
  /** By one of the two below; what comes after the first is not heard. */
  answered: boolean;
  resolve(reply: Reply): void;
  reject(reason: Error): void;
}

/** What the runtime's own senders add to an event; bounds and patience are for the others. */
export interface Extra {
  options?: SendOptions | undefined;
  /** The outbox row it answers. */
  delivers?: OutboxKey;
  /** The timer that fired. */
  timer?: string;
  /** Durable elsewhere: waits as long as the store is away. */
  patient?: boolean;
}

export const internal = (extra: Extra): boolean =>
  extra.patient === true || extra.delivers !== undefined || extra.timer !== undefined;

/** A letter that nobody has answered; what `given` leaves out is not so. */
export const newLetter = (
  given: Pick<Letter, 'event' | 'sentAt' | 'patienceMs' | 'resolve' | 'reject'> & Partial<Letter>,
): Letter => ({
  options: undefined,
  delivers: null,
  timer: null,
  companion: false,
  attempts: 0,
  answered: false,
  ...given,
});

/** A live actor: its last committed snapshot and the events that wait for it. */
export class Entity {
  readonly ref: ActorRef;
  definition: MachineDefinition;
  snapshot: AnyMachineSnapshot;
  /** Of the committed snapshot; 0 until it is created. */
  version: number;
  since: EpochMs;
  quarantine: string | null = null;
  mailbox: Letter[] = [];
  /** In a turn that was not released yet. */
  busy = false;
  /** Queued for the next turn. */
  ready = false;
  /** Decided one event a turn, to find the one the store refuses. */
  singly = false;
  /** Its row is gone or unknown: a letter must load it again first. */
  stale = false;
  /** When its machine threw, within the last minute. */
  throws: EpochMs[] | null = null;
  usedAt: EpochMs;

  constructor(
    ref: ActorRef,
    definition: MachineDefinition,
    state: { snapshot: AnyMachineSnapshot; version: number; since: EpochMs },
    now: EpochMs,
  ) {
    this.ref = ref;
    this.definition = definition;
    this.snapshot = state.snapshot;
    this.version = state.version;
    this.since = state.since;
    this.usedAt = now;
  }

  committed(): Committed<never> {
    return {
      ref: this.ref,
      version: this.version,
      snapshot: this.snapshot as unknown as Snapshot<never>,
      since: this.since,
    };
  }
}

/** An actor before its creating event. */
export const blankEntity = (ref: ActorRef, definition: MachineDefinition, now: EpochMs): Entity =>
  new Entity(ref, definition, { snapshot: blank(definition), version: 0, since: now }, now);

export const addressOf = (ref: ActorRef): string => `${ref.kind}:${ref.id}`;
