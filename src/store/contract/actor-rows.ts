import type { EpochMs, Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import type { ActorRef } from '../../machines/outputs.ts';

// Types that several parts of the store's contract return.

/** A stored actor, in this project's own format, not as an XState snapshot. */
export interface StoredActor {
  ref: ActorRef;
  tenantId: Uuid;
  /** Increases by one with each transition (a commit may contain several); 1 is the first. */
  version: number;
  machineVersion: number;
  value: Json;
  /** Both parts of the context in one object: rows of earlier builds do not separate them. */
  context: JsonObject;
  /** Time of the last change of `value`. */
  since: EpochMs;
  /** Reason for the quarantine, or null. */
  quarantine: string | null;
}

export interface JournalEntry {
  version: number;
  at: EpochMs;
  by: Principal;
  event: string;
  from: Json;
  to: Json;
  data: JsonObject | null;
}

export interface TimerRow {
  ref: ActorRef;
  /** Unique within the actor. */
  id: string;
  event: string;
  dueAt: EpochMs;
}
