import type { EpochMs, Json, Uuid } from '../../domain/values.ts';
import type { ActorKind, ActorRef } from '../../machines/outputs.ts';
import type { JournalEntry, StoredActor, TimerRow } from './actor-rows.ts';
import type { Overview } from './overview.ts';
import type { Page, Position } from './page.ts';

/** An actor as lists show it: without its context. */
export interface ListedActor {
  ref: ActorRef;
  /** What people call it: a device's name or type, a command's action, a plan's or tenant's name; null for a plan without one. */
  name: string | null;
  version: number;
  value: Json;
  since: EpochMs;
  createdAt: EpochMs;
  quarantine: string | null;
}

export interface ActorFilter {
  /** Paths of states in the chart: of each group one must be entered. */
  states?: readonly (readonly (readonly string[])[])[];
  quarantined?: boolean;
}

/** What administrators see of actors; nothing that the runtime itself needs. */
export interface InspectionStore {
  /**
   * The tenant's actors of one kind, newest first, without deleted devices. Where few fit the filter a page may be short, or
   * empty, and still have a next one: one call looks at so many actors at most.
   */
  actors(
    tenantId: Uuid,
    kind: ActorKind,
    filter: ActorFilter,
    limit: number,
    after?: Position,
  ): Promise<Page<ListedActor>>;
  /** Null where the tenant has no such actor. */
  actor(tenantId: Uuid, ref: ActorRef): Promise<StoredActor | null>;
  overview: Overview;
  /** The timers that are set, the next one first. */
  timers(ref: ActorRef): Promise<TimerRow[]>;
  /** Newest first, from below `before` on; that of an actor that is gone is there as long as it is kept. */
  journal(tenantId: Uuid, ref: ActorRef, limit: number, before?: number): Promise<JournalEntry[]>;
}
