import type { ContextInput, PlannerPhase } from '../../domain/cognition.ts';
import type { Manifest } from '../../domain/manifest.ts';
import type { Memory } from '../../domain/memory.ts';
import type { StepStatus } from '../../domain/plan.ts';
import type { Outcome } from '../../domain/refusals.ts';
import type { EpochMs, Json, JsonObject, Uuid } from '../../domain/values.ts';

// The contract between the service and a cognitive sidecar. A context is one goal, device request or observation to
// plan for. A sidecar can only propose steps; the gateway and people decide.

/** A proposed step with its current status. */
export interface ContextNode {
  id: string;
  deviceId: Uuid;
  action: string;
  params: JsonObject;
  dependsOn: readonly string[];
  compensation: { action: string; params: JsonObject } | null;
  timeoutS: number | null;
  status: StepStatus;
  commandId: Uuid | null;
  /** Why it failed, or why it was not undone. */
  error: { code: string; detail: string } | null;
}

export type { ContextChange, ContextKind, InterruptReason } from '../../domain/cognition.ts';

/** A context that waits for a sidecar, with everything that a stateless one needs to continue. */
export interface ActiveContext extends ContextInput {
  /** The id of the plan, or of an observation's proposal. */
  id: Uuid;
  tenantId: Uuid;
  /** The measurements of an observation. */
  data: JsonObject | null;
  phase: Exclude<PlannerPhase, 'done'>;
  createdAt: EpochMs;
  nodes: readonly ContextNode[];
}

/** A device as sent to a sidecar. */
export interface WorldDevice {
  id: Uuid;
  name: string | null;
  type: string;
  category: string | null;
  homeId: Uuid | null;
  room: { id: Uuid; name: string } | null;
  online: boolean;
  state: JsonObject;
  /** A command may have changed the device since it reported its state. */
  stateOutdated: boolean;
  /** Null if the device has none. Shared and immutable. */
  manifest: Manifest | null;
}

/** The devices in reach of a context: those of its home, a single device, or all of the tenant. */
export interface World {
  tenantId: Uuid;
  homeId: Uuid | null;
  /** Without revoked devices, ordered by id; at most `MAX_WORLD_DEVICES`. */
  devices: readonly WorldDevice[];
  /** SHA-256 hex of the canonical JSON of the devices, with a hash in place of each state; changes with any change. */
  hash: string;
}

/** Selects the devices of a world. */
export interface WorldQuery {
  tenantId: Uuid;
  homeId: Uuid | null;
  /** Only this device. */
  deviceId?: Uuid | null;
}

export const MAX_WORLD_DEVICES = 500;

export interface Cognition {
  /**
   * Active contexts of one tenant or of all, oldest first; none of a suspended tenant or under `cognition_disabled`.
   */
  active(tenantId?: Uuid): AsyncIterable<ActiveContext>;
  /** The active context with this id, or null. */
  context(id: Uuid): Promise<ActiveContext | null>;
  world(query: WorldQuery): Promise<World>;
  /** The devices in reach of this context. */
  worldOf(context: ActiveContext): Promise<World>;
  /** The reported state of a device; null if the tenant does not have it. */
  stateOf(tenantId: Uuid, deviceId: Uuid): Promise<JsonObject | null>;
  /**
   * The memories to plan with: preferences and routines that steer goals, then the newest observations, each newest
   * first; bounded.
   */
  memories(tenantId: Uuid): Promise<readonly Memory[]>;

  // Requests of the sidecar. All input is validated here, and they resolve when their effect is durable. Refusals:
  // NOT_FOUND for an unknown context, CONFLICT for one that has ended, VALIDATION_FAILED or NOT_FOUND for a node that
  // is invalid or names a device out of reach.

  /**
   * `node` is a step in the format of `POST /plans`, `memoryIds` names the memories that shaped it; one that may not be
   * planned with is NOT_FOUND. Proposing the same node again is a repeat and changes nothing.
   */
  propose(contextId: Uuid, node: Json, memoryIds?: readonly Uuid[]): Promise<Outcome<{ repeat: boolean }>>;
  /** Suspends for `forS` seconds or until the next request of the sidecar; then `opened` is sent again. */
  suspend(contextId: Uuid, request: { reason: string; forS?: number | null }): Promise<Outcome<null>>;
  complete(contextId: Uuid, request: { summary: string; finalState?: JsonObject | null }): Promise<Outcome<null>>;
  /** Ends the context with an error. The sidecar defines `code`. */
  fail(contextId: Uuid, request: { code: string; detail: string }): Promise<Outcome<null>>;
}
