import type { EpochMs, Uuid } from '../domain/values.ts';
import { compiledMachine, type MachineSnapshot } from '../machines/compiled.ts';
import type { MachineDefinition, Snapshot } from '../machines/definition.ts';
import type { ActorRef } from '../machines/outputs.ts';
import type { Committed } from './contract.ts';
import type { Envelope } from './envelope.ts';

/**
 * Where an actor is on its way through commits: `idle`, `queued` for the next batch, `committing` in a batch that is not
 * released yet, or `evicted`: its stored row is deleted or unknown, and another instance is loaded in its place.
 *
 * ```text
 * idle ──queue──▶ queued ──unqueue──▶ idle ──startCommit──▶ committing ──endCommit──▶ idle
 * any ──evict──▶ evicted (final)
 * ```
 */
export type ActorStatus = 'idle' | 'queued' | 'committing' | 'evicted';

/** The statuses that may follow each one. */
const nextStatuses: Readonly<Record<ActorStatus, readonly ActorStatus[]>> = {
  idle: ['queued', 'committing', 'evicted'],
  queued: ['idle', 'evicted'],
  committing: ['idle', 'evicted'],
  evicted: [],
};

/** An actor in memory: its last committed snapshot and its mailbox. */
export class LiveActor {
  readonly ref: ActorRef;
  definition: MachineDefinition;
  snapshot: MachineSnapshot;
  /** Version of the committed snapshot; 0 before the creating event. */
  version: number;
  since: EpochMs;
  /** The tenant of the stored row, also if its context cannot be read; null for an actor that this process has created. */
  storedTenantId: Uuid | null = null;
  quarantine: string | null = null;
  mailbox: Envelope[] = [];
  #currentStatus: ActorStatus = 'idle';
  /** Decides one event per batch, to find the poison event that the store rejects. */
  isolating = false;
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

  /** The tenant of the actor; not known before the creating event is committed. */
  get tenantId(): Uuid {
    return this.storedTenantId ?? this.definition.tenantOf(this.snapshot.context);
  }

  get status(): ActorStatus {
    return this.#currentStatus;
  }

  queue(): void {
    this.#change('queued');
  }

  /** Leaves the queue, for a batch or because all its events were rejected while it waited. */
  unqueue(): void {
    this.#change('idle');
  }

  startCommit(): void {
    this.#change('committing');
  }

  endCommit(): void {
    this.#change('idle');
  }

  evict(): void {
    this.#change('evicted');
  }

  /** Does nothing to an evicted actor: its wait in the queue or its commit may end after the eviction. */
  #change(to: ActorStatus): void {
    const from = this.#currentStatus;
    if (from === 'evicted') return;
    if (!nextStatuses[from].includes(to)) {
      throw new Error(`${addressOf(this.ref)} cannot change from ${from} to ${to}`);
    }
    this.#currentStatus = to;
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
