import type { ContextInput } from '../../domain/cognition.ts';
import type { Manifest } from '../../domain/manifest.ts';
import type { Memory } from '../../domain/memory.ts';
import type { StepStatus } from '../../domain/plan.ts';
import type { Outcome } from '../../domain/refusals.ts';
import type { EpochMs, Json, JsonObject, Uuid } from '../../domain/values.ts';

// What stands between the service and whoever thinks for it. A context is one thing to be thought about; what a sidecar says
// about it are words, and a word can only propose: the gateway, and people, decide.

/** A step that was proposed, as it stands now. */
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
  /** Why it failed, or why it is not undone. */
  error: { code: string; detail: string } | null;
}

export type { ContextChange, ContextKind, InterruptReason } from '../../domain/cognition.ts';

/** What waits for a sidecar, with all that one without a memory needs in order to go on. */
export interface ActiveContext extends ContextInput {
  /** The plan's; of an observation its proposal's. */
  id: Uuid;
  tenantId: Uuid;
  /** Of an observation: what was measured. */
  data: JsonObject | null;
  phase: 'thinking' | 'suspended';
  createdAt: EpochMs;
  nodes: readonly ContextNode[];
}

/** A device as a sidecar sees it. */
export interface WorldDevice {
  id: Uuid;
  name: string | null;
  type: string;
  category: string | null;
  homeId: Uuid | null;
  room: { id: Uuid; name: string } | null;
  online: boolean;
  state: JsonObject;
  /** Null: nothing can be done with it. Shared with others: never changed. */
  manifest: Manifest | null;
}

/** What a context may reach: the devices of its home, the one device, or those of the tenant. */
export interface World {
  tenantId: Uuid;
  homeId: Uuid | null;
  /** Not revoked, in the order of their ids; `MOST_DEVICES` at most. */
  devices: readonly WorldDevice[];
  /** SHA-256 hex over the canonical JSON of the devices, each with the hash of its state: another one where anything is another. */
  hash: string;
}

/** Whose devices are looked at. */
export interface WorldQuery {
  tenantId: Uuid;
  homeId: Uuid | null;
  /** Only this one. */
  deviceId?: Uuid | null;
}

export const MAX_WORLD_DEVICES = 500;

export interface Cognition {
  /** All that waits for a sidecar, of one tenant or of all, oldest first; nothing of a suspended tenant, or under the flag. */
  active(tenantId?: Uuid): AsyncIterable<ActiveContext>;
  /** Null where nothing of that id waits for a sidecar now. */
  context(id: Uuid): Promise<ActiveContext | null>;
  world(asked: WorldQuery): Promise<World>;
  /** The devices that this context may reach. */
  worldOf(context: ActiveContext): Promise<World>;
  /** The reported state of a device; null where the tenant has no such one. */
  stateOf(tenantId: Uuid, deviceId: Uuid): Promise<JsonObject | null>;
  /** Preferences and routines, then the newest observations, each newest first; bounded. */
  memories(tenantId: Uuid): Promise<readonly Memory[]>;

  // Words. They are checked here, whatever was checked before, and resolve when what they did is durable. A context that does
  // not exist refuses with NOT_FOUND, one that is over with CONFLICT; what is mistyped, or not to be reached, with
  // VALIDATION_FAILED or NOT_FOUND.

  /** `node` is a step as `POST /plans` takes it. The same again is a repeat, and changes nothing. */
  propose(contextId: Uuid, node: Json): Promise<Outcome<{ repeat: boolean }>>;
  /** Until `forS` seconds are over, or the next word; then it is told anew (`opened`). */
  suspend(contextId: Uuid, word: { reason: string; forS?: number | null }): Promise<Outcome<null>>;
  complete(contextId: Uuid, word: { summary: string; finalState?: JsonObject | null }): Promise<Outcome<null>>;
  /** It cannot go on. `code` is the sidecar's own. */
  fail(contextId: Uuid, word: { code: string; detail: string }): Promise<Outcome<null>>;
}
