import type { EpochMs } from '../domain/values.ts';
import { compiledMachine, type MachineSnapshot } from '../machines/compiled.ts';
import type { MachineDefinition, Snapshot } from '../machines/definition.ts';
import type { ActorRef } from '../machines/outputs.ts';
import type { Committed } from './contract.ts';
import type { Envelope } from './envelope.ts';

/** An actor in memory: its last committed snapshot and its mailbox. */
export class LiveActor {
  readonly ref: ActorRef;
  definition: MachineDefinition;
  snapshot: MachineSnapshot;
  /** Version of the committed snapshot; 0 before the creating event. */
  version: number;
  since: EpochMs;
  quarantine: string | null = null;
  mailbox: Envelope[] = [];
  /** In a batch that is not released yet. */
  inBatch = false;
  /** Queued for the next batch. */
  queued = false;
  /** Decides one event per batch, to find the poison event that the store rejects. */
  isolating = false;
  /** Its stored row is deleted or unknown: the next event must reload it. */
  evicted = false;
  /** This process has written the row, so the fixed part of its context equals the one in memory. */
  fixedStored = false;
  /** Times at which its machine threw, within the last minute. */
  recentFailures: EpochMs[] | null = null;
  lastUsedAt: EpochMs;

  constructor(
    ref: ActorRef,
    definition: MachineDefinition,
    state: { snapshot: MachineSnapshot; version: number; since: EpochMs },
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
      snapshot: this.snapshot as Snapshot as Snapshot<never>,
      since: this.since,
    };
  }
}

/** An actor before its creating event. */
export const createBlankActor = (ref: ActorRef, definition: MachineDefinition, now: EpochMs): LiveActor =>
  new LiveActor(
    ref,
    definition,
    { snapshot: compiledMachine(definition.machine).initial, version: 0, since: now },
    now,
  );

export const addressOf = (ref: ActorRef): string => `${ref.kind}:${ref.id}`;

/**
 * Takes up to `limit` envelopes from the mailbox: a single one if a poison event is being isolated, and none after one
 * with an idempotency row, because a commit holds one such row.
 */
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
