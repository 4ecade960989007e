import type { CommandStatus, VerificationStatus } from './command.ts';
import type { StepStatus } from './plan.ts';
import type { EpochMs, JsonObject, Milliseconds, Uuid } from './values.ts';

// A context is one thing that somebody outside is asked to think about; what comes of it are the steps of a plan.

export const contextKinds = ['goal', 'device', 'observation'] as const;
/** A goal, a request for one device, or an observation. */
export type ContextKind = (typeof contextKinds)[number];

/** What is to be thought about. */
export interface ContextInput {
  kind: ContextKind;
  /** Null: all of the tenant's homes. */
  homeId: Uuid | null;
  /** Of a device request or an observation. */
  deviceId: Uuid | null;
  /** A goal in somebody's words. */
  text: string | null;
  /** A device request that names what is to be done. */
  action: { action: string; params: JsonObject } | null;
  /** What whoever asked said beside it. */
  note: string | null;
}

/** Whoever thinks is silent for so long, and nothing of the plan is under way: then it is given up. */
export const PLANNER_TIMEOUT_MS: Milliseconds = 60_000;
/** How long a suspension lasts that says nothing else, and the longest one. */
export const SUSPENSION_S = { default: 300, max: 3_600 } as const;
/** For so long after it was asked for a context may be suspended; an observation's proposal expires then. */
export const CONTEXT_LIFE_MS: Milliseconds = 24 * 3_600_000;

/** `PREEMPTED`: it ended otherwise, as by a step that failed. */
export type InterruptReason = 'CANCELLED' | 'SUSPENDED' | 'PREEMPTED';

interface ContextRef {
  /** The plan's id; of an observation its proposal's. */
  contextId: Uuid;
  tenantId: Uuid;
  homeId: Uuid | null;
  at: EpochMs;
}

/** What becomes of contexts, for whoever thinks about them. */
export type ContextChange =
  /** It waits for a word: it is new, or is to be thought about again. */
  | (ContextRef & { type: 'opened' })
  /** Nothing more is expected for it, or not now. */
  | (ContextRef & { type: 'interrupted'; reason: InterruptReason; detail: string })
  /** A node has another status; `from` is null where it was proposed just now. */
  | (ContextRef & {
      type: 'node';
      nodeId: string;
      from: StepStatus | null;
      to: StepStatus;
      commandId: Uuid | null;
      error: { code: string; detail: string } | null;
    })
  /** A command of a node is over, its own or the one that undoes it. */
  | (ContextRef & {
      type: 'outcome';
      nodeId: string;
      deviceId: Uuid;
      commandId: Uuid;
      compensation: boolean;
      success: boolean;
      status: CommandStatus;
      verification: VerificationStatus;
      /** Why it failed. */
      code: string | null;
    });

/** A change, without what it is about. */
export type ContextChangeBody = ContextChange extends infer One
  ? One extends ContextChange
    ? Omit<One, keyof ContextRef>
    : never
  : never;
