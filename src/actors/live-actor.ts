import type { AnyMachineSnapshot } from 'xstate';
import type { EpochMs } from '../domain/values.ts';
import type { MachineDefinition, Snapshot } from '../machines/definition.ts';
import type { ActorRef } from '../machines/outputs.ts';
import type { Committed } from './contract.ts';
import { blankSnapshot } from './decide.ts';
import type { Envelope } from './envelope.ts';

/** A live actor: its last committed snapshot and the events that wait for it. */
export class LiveActor {
  readonly ref: ActorRef;
  definition: MachineDefinition;
  snapshot: AnyMachineSnapshot;
  /** Of the committed snapshot; 0 until it is created. */
  version: number;
  since: EpochMs;
  quarantine: string | null = null;
  mailbox: Envelope[] = [];
  /** In a turn that was not released yet. */
  inBatch = false;
  /** Queued for the next turn. */
  queued = false;
  /** Decided one event a turn, to find the one the store refuses. */
  isolating = false;
  /** Its row is gone or unknown: a letter must load it again first. */
  evicted = false;
  /** What of its context is not `moving` is in its row as it is here: written, not only read, by this process. */
  baseStored = false;
  /** When its machine threw, within the last minute. */
  recentFailures: EpochMs[] | null = null;
  lastUsedAt: EpochMs;

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
    this.lastUsedAt = now;
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
export const createBlankActor = (ref: ActorRef, definition: MachineDefinition, now: EpochMs): LiveActor =>
  new LiveActor(ref, definition, { snapshot: blankSnapshot(definition), version: 0, since: now }, now);

export const addressOf = (ref: ActorRef): string => `${ref.kind}:${ref.id}`;

/** All that waits; one alone where a culprit is looked for or where a letter brings an idempotency row of its own. */
export function takeEnvelopes(actor: LiveActor, limit: number): Envelope[] {
  const { mailbox } = actor;
  let count = actor.isolating ? 1 : Math.min(mailbox.length, limit);
  const alone = mailbox.findIndex((envelope) => envelope.options?.idempotency !== undefined);
  if (alone >= 0) count = Math.min(count, alone + 1);
  if (count >= mailbox.length) {
    actor.mailbox = [];
    return mailbox;
  }
  return mailbox.splice(0, count);
}
