import type { Position } from '../../domain/cursor.ts';
import type { EpochMs, Json, JsonObject, Principal, Uuid } from '../../domain/values.ts';
import type { ActorKind, ActorRef } from '../../machines/outputs.ts';
import type { JournalEntry, StoredActor, TimerRow } from './actor-rows.ts';
import type { OverviewQuery } from './overview.ts';
import type { Page } from './page.ts';

/** The members of a command in a list. */
export interface ListedCommand {
  deviceId: Uuid;
  /** The device's name or type; null if the device was deleted. */
  deviceName: string | null;
  /** Null if the stored context lacks them, as `requestedBy`. */
  params: JsonObject | null;
  requestedBy: Principal | null;
}

/** An actor as shown in lists, without its context. */
export interface ListedActor {
  ref: ActorRef;
  /**
   * Display name: a device's name or type, a command's action, a plan's or tenant's name; null for a plan without a
   * name.
   */
  name: string | null;
  version: number;
  value: Json;
  since: EpochMs;
  createdAt: EpochMs;
  quarantine: string | null;
  /** Null for other kinds. */
  command: ListedCommand | null;
}

export interface ActorFilter {
  /** Groups of state paths in the chart: the actor must be in at least one state of each group. */
  states?: readonly (readonly (readonly string[])[])[];
  quarantined?: boolean;
}

/** Queries for administrators; the runtime does not use them. */
export interface InspectionStore {
  /**
   * The tenant's actors of one kind, newest first, without deleted devices. A call examines a limited number of actors,
   * so with a selective filter a page may be short or empty and still have a next one.
   */
  actors(
    tenantId: Uuid,
    kind: ActorKind,
    filter: ActorFilter,
    limit: number,
    after?: Position,
  ): Promise<Page<ListedActor>>;
  /** Names of the tenant's actors of one kind, as in `ListedActor`; those without one are left out. */
  names(tenantId: Uuid, kind: ActorKind, ids: readonly Uuid[]): Promise<ReadonlyMap<Uuid, string>>;
  /** Null if the tenant has no such actor. */
  actor(tenantId: Uuid, ref: ActorRef): Promise<StoredActor | null>;
  overview: OverviewQuery;
  /** Pending timers, earliest first. */
  timers(ref: ActorRef): Promise<TimerRow[]>;
  /** Newest first, with versions below `before`. Entries of a deleted actor remain until they are pruned. */
  journal(tenantId: Uuid, ref: ActorRef, limit: number, before?: number): Promise<JournalEntry[]>;
}
