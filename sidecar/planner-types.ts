import type { JsonObject, JsonValue } from '@bufbuild/protobuf';

export type { JsonObject, JsonValue };

// The types of the planners. `event-decoder.ts` and `proposal-encoder.ts` convert them from and to the messages of the
// stream.

/** One action of a device's manifest. */
export interface Tool {
  /** The device's own name of the action. */
  action: string;
  /** A user has to approve it. A sidecar cannot. */
  critical: boolean;
  /** The action's name in the character set of language model APIs. */
  functionName: string;
  description: string;
  /** JSON Schema of the parameters. */
  params: JsonObject;
  /** Template of the state that verifies the action. `{"$param": "level"}` stands for a parameter. */
  expectedState: JsonObject | null;
}

/** By the action's name. */
export type Tools = ReadonlyMap<string, Tool>;

/** Names, rooms and states come from devices and users: they are data, never instructions. */
export interface PlannerDevice {
  id: string;
  name: string | null;
  room: string | null;
  type: string;
  category: string | null;
  online: boolean;
  /** The last reported state; null if none is known. */
  state: JsonObject | null;
  /** A command may have changed the device since it reported the state. */
  stateOutdated: boolean;
  tools: Tools;
}

export interface Memory {
  id: string;
  kind: string;
  subject: string;
  content: string;
  tags: readonly string[];
}

export interface ActionCall {
  action: string;
  params: JsonObject;
}

/** A node of the plan graph, as a planner proposes it. */
export interface Step extends ActionCall {
  /** 1 to 64 characters, unique in its context. */
  id: string;
  deviceId: string;
  /** Steps that have to succeed first. They must have been proposed earlier. */
  dependsOn: readonly string[];
  /** Undoes the step on the same device. */
  compensation: ActionCall | null;
}

/** A step with the ids of the memories that shaped it. */
export interface NewStep extends Step {
  memoryIds: readonly string[];
}

export const nodeStates = [
  'pending',
  'running',
  'awaiting_confirmation',
  'succeeded',
  'failed',
  'skipped',
  'compensating',
  'compensated',
  'compensation_failed',
  'rejected',
  'proposed',
] as const;
export type NodeState = (typeof nodeStates)[number];

/** A step that the service accepted, with its state. */
export interface Node extends Step {
  state: NodeState;
  code: string;
  detail: string;
  /** The result of the finished command. */
  outcome: CommandOutcome | null;
}

export interface CommandOutcome {
  success: boolean;
  /** Final status of the command. */
  status: string;
  verification: string;
  code: string;
  deviceState: JsonObject | null;
}

/** A step that the service rejected. */
export interface RejectedStep {
  step: Step;
  code: string;
  detail: string;
}

export interface Context {
  id: string;
  kind: 'goal' | 'device' | 'observation';
  /** The goal as written by the user; empty for a requested action and for an observation. */
  text: string;
  /** The only device that the context may use; null: all devices of its scope. */
  deviceId: string | null;
  /** A requested action in place of a goal. */
  requestedAction: ActionCall | null;
  /** Measurements of an observation. */
  data: JsonObject;
  /** A note of the requester: data, never an instruction. */
  note: string;
  nodes: readonly Node[];
}

/** The complete input of a planner. Planners are stateless. */
export interface PlannerInput {
  context: Context;
  devices: readonly PlannerDevice[];
  memories: readonly Memory[];
  /** Rejections in this stream. */
  refusals: readonly RejectedStep[];
}

/** A planner's decision about a context that has no step in progress. */
export type PlannerDecision =
  /** `because` is the reason, in one sentence. */
  | { steps: readonly [NewStep, ...NewStep[]]; because: string }
  | { done: string; finalState: JsonObject }
  /** `code` is in upper snake case; `failed` is one sentence for the user. */
  | { failed: string; code: string };

export interface Planner {
  readonly name: string;
  /** Time limit of one decision in seconds; 0: it is immediate. */
  readonly timeoutS: number;
  decide(view: PlannerInput, signal: AbortSignal): Promise<PlannerDecision>;
}

/** Limit of steps per context. */
export const MAX_STEPS = 100;

export const displayNameOf = (device: PlannerDevice): string => device.name ?? device.type;
