import type { EpochMs, Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import type { ActorRef } from '../../machines/outputs.ts';

// What several parts of the store's contract hand out.

/** An actor as stored: our own shape, never XState's snapshot. */
export interface StoredActor {
  ref: ActorRef;
  tenantId: Uuid;
  /** Raised by one with each transition (a commit may hold several); 1 is the first. */
  version: number;
  machineVersion: number;
  value: Json;
  context: JsonObject;
  /** When its state value last changed. */
  since: EpochMs;
  /** Why it is quarantined, or null. */
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
  /** Unique within its actor. */
  id: string;
  event: string;
  dueAt: EpochMs;
}
