import type { CommandStatus, VerificationStatus } from './command.ts';
import type { StepStatus } from './plan.ts';
import type { EpochMs, JsonObject, Milliseconds, Uuid } from './values.ts';

// A cognitive context is one input for an external planner; the planner's output is the steps of a plan.

export const contextKinds = ['goal', 'device', 'observation'] as const;
/** A goal, a request for a single device, or an observation. */
export type ContextKind = (typeof contextKinds)[number];

/** `suspended`: the planner waits for something. `done`: it adds no more steps. */
export const plannerPhases = ['thinking', 'suspended', 'done'] as const;
export type PlannerPhase = (typeof plannerPhases)[number];

/** The input that the planner works on. */
export interface ContextInput {
  kind: ContextKind;
  /** Null: all homes of the tenant. */
  homeId: Uuid | null;
  /** Set for a device request and an observation. */
  deviceId: Uuid | null;
  /** A goal as free text. */
  text: string | null;
  /** The action of a device request that names one. */
  action: { action: string; params: JsonObject } | null;
  /** A remark by the requester. */
  note: string | null;
}

/** Planning fails if the planner sends nothing for this long while no step is under way. */
export const PLANNER_TIMEOUT_MS: Milliseconds = 60_000;
/** Default and maximum duration of a suspension, in seconds. */
export const SUSPENSION_S = { default: 300, max: 3_600 } as const;
/**
 * A context may be suspended until this long after its request; an observation's proposal expires after the same time.
 */
export const CONTEXT_LIFE_MS: Milliseconds = 24 * 3_600_000;

/** `PREEMPTED`: the context ended for another reason, such as a failed step. */
export type InterruptReason = 'CANCELLED' | 'SUSPENDED' | 'PREEMPTED';

interface ContextRef {
  /** The plan's id; for an observation, its proposal's id. */
  contextId: Uuid;
  tenantId: Uuid;
  homeId: Uuid | null;
  at: EpochMs;
}

/** Changes of contexts that are sent to the planner. */
export type ContextChange =
  /** The context waits for the planner: it is new or was resumed. */
  | (ContextRef & { type: 'opened' })
  /** No more planner output is expected, permanently or for now. */
  | (ContextRef & { type: 'interrupted'; reason: InterruptReason; detail: string })
  /** A node's status changed; `from` is null for a newly proposed node. */
  | (ContextRef & {
      type: 'node';
      nodeId: string;
      from: StepStatus | null;
      to: StepStatus;
      commandId: Uuid | null;
      error: { code: string; detail: string } | null;
    })
  /** A command of a node is final: its own or its compensation. */
  | (ContextRef & {
      type: 'outcome';
      nodeId: string;
      deviceId: Uuid;
      commandId: Uuid;
      compensation: boolean;
      success: boolean;
      status: CommandStatus;
      verification: VerificationStatus;
      /** Reason of a failure. */
      code: string | null;
    });

/** A change without the reference to its context. */
export type ContextChangeBody = ContextChange extends infer One
  ? One extends ContextChange
    ? Omit<One, keyof ContextRef>
    : never
  : never;
