import type { OwnedShards } from '../../domain/shards.ts';
import type { EpochMs, Json, JsonObject, Uuid } from '../../domain/values.ts';
import type { ActorKind, ActorRef, DurableOutput, RowOutput } from '../../machines/outputs.ts';
import type { JournalEntry, StoredActor, TimerRow } from './actor-rows.ts';
import type { IdempotencyRow } from './idempotency.ts';

/** An output that must be delivered, numbered so that a duplicate is recognised. */
export interface OutboxRow {
  from: ActorRef;
  version: number;
  n: number;
  output: DurableOutput;
}
export type OutboxKey = Pick<OutboxRow, 'from' | 'version' | 'n'>;

/** An output that was committed but not yet delivered. */
export interface PendingOutput extends OutboxRow {
  /** Position in insertion order, from 1. */
  seq: number;
}

/** The reports of one commit, in the order in which they were accepted. */
export interface ReportedSamples {
  /** When the first of them was received. */
  at: EpochMs;
  /** JSON text of a list of `StoredReport`. */
  text: string;
}

/** One actor's changes in a batch. Stored as a whole, or not at all if the row's version is no longer `readVersion`. */
export interface ActorCommit {
  ref: ActorRef;
  tenantId: Uuid;
  /** The version that the decision was based on; 0 inserts the row. */
  readVersion: number;
  version: number;
  machineVersion: number;
  value: Json;
  /**
   * The context in two parts with different members. Most transitions change `live` alone, so the two are stored
   * separately, and `fixed` is not rewritten each time.
   */
  fixed: JsonObject;
  live: JsonObject;
  /** The row already has this `fixed`, and the columns derived from it. */
  fixedUnchanged: boolean;
  /** Columns of the actor's kind: see `machines/actor-columns.ts`. */
  columns: JsonObject;
  since: EpochMs;
  journal: JournalEntry[];
  outbox: { n: number; output: DurableOutput }[];
  timers: { set: TimerRow[]; clear: string[] };
  rows: RowOutput[];
  /** The reports that the transition accepted, for the history of a device; null without one. */
  samples: ReportedSamples | null;
  idempotency: IdempotencyRow | null;
  /** Outbox rows that this transition handles: deleted with it, kept when it conflicts. */
  delivered: OutboxKey[];
}

export interface CommitOptions {
  /** Outbox rows that caused no transition: deleted in the same statement. */
  delivered?: readonly OutboxKey[];
  /** All or nothing: on a version conflict of one actor nothing is stored, and all actors are returned as conflicts. */
  atomic?: boolean;
}

/** A timer whose actor no longer handles its event. */
export interface UnhandledTimer extends Pick<TimerRow, 'ref' | 'id'> {
  /** Version of the actor that did not handle the event. */
  version: number;
}

export interface ActorStore {
  /** The existing actors of `ids`; deleted devices are left out. */
  load(kind: ActorKind, ids: readonly Uuid[]): Promise<StoredActor[]>;
  /** One statement. `lost` are the actors with a version conflict; nothing of them was stored. */
  commit(commits: readonly ActorCommit[], options?: CommitOptions): Promise<{ lost: ActorRef[] }>;
  quarantine(ref: ActorRef, reason: string | null): Promise<void>;
  /** Timers due at or before `until`, oldest first. Firing does not delete a timer: the transition's commit does. */
  dueTimers(until: EpochMs, limit: number, shards?: OwnedShards): Promise<TimerRow[]>;
  /**
   * Removes timers with an unhandled event, unless they were set again for a time after `dueBy` or their actor has a
   * newer version.
   */
  dropTimers(timers: readonly UnhandledTimer[], dueBy: EpochMs): Promise<void>;
  /** Makes a timer due again at `until`, unless it was set again for a time after `dueBy`. */
  postponeTimer(timer: Pick<TimerRow, 'ref' | 'id'>, dueBy: EpochMs, until: EpochMs): Promise<void>;
  /** Due time of the earliest timer, or null. */
  nextTimerAt(shards?: OwnedShards): Promise<EpochMs | null>;
  /** Undelivered outputs in insertion order, from the one after sequence number `after`. */
  pendingOutbox(limit: number, after: number, shards?: OwnedShards): Promise<PendingOutput[]>;
  journal(ref: ActorRef, limit: number, before?: number): Promise<JournalEntry[]>;
}
