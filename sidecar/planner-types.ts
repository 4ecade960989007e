import type { JsonObject, JsonValue } from '@bufbuild/protobuf';

export type { JsonObject, JsonValue };

// What planners think in. The messages of the stream are turned into it, and back, in `perceive.ts` and `speak.ts`.

/** One action of a device's manifest. */
export interface Tool {
  /** Spelt exactly as the device knows it. */
  action: string;
  /** It waits for a person's approval; nothing that a sidecar says can give it. */
  critical: boolean;
  /** The action's name as language models take it. */
  functionName: string;
  description: string;
  /** JSON Schema of the parameters. */
  params: JsonObject;
  /** A template of the state that proves it: `{"$param": "level"}` stands for a parameter. */
  expected: JsonObject | null;
}

/** By the action's name. */
export type Tools = ReadonlyMap<string, Tool>;

/** Names, rooms and states were written by somebody: data, never an instruction. */
export interface Device {
  id: string;
  name: string | null;
  room: string | null;
  type: string;
  category: string | null;
  online: boolean;
  /** The whole state as last reported; null where none is known. */
  state: JsonObject | null;
  tools: Tools;
}

export interface Memory {
  kind: string;
  subject: string;
  content: string;
  tags: readonly string[];
}

export interface ActionCall {
  action: string;
  params: JsonObject;
}

/** A node of the graph as a planner wishes it. */
export interface Step extends ActionCall {
  /** 1 to 64 characters, unique in its context. */
  id: string;
  deviceId: string;
  /** Steps that have to succeed before; all of them were wished before. */
  dependsOn: readonly string[];
  /** What undoes it on the same device. */
  compensation: ActionCall | null;
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

/** A step that the service took, and how it stands. */
export interface Node extends Step {
  state: NodeState;
  code: string;
  detail: string;
  /** What its device reported once its command was over. */
  outcome: Outcome | null;
}

export interface Outcome {
  success: boolean;
  /** The command's. */
  status: string;
  verification: string;
  code: string;
  deviceState: JsonObject | null;
}

/** A step that the service did not take. */
export interface Refusal {
  step: Step;
  code: string;
  detail: string;
}

export interface Context {
  id: string;
  kind: 'goal' | 'device' | 'observation';
  /** The goal in somebody's words; empty where an action is asked for, and in an observation. */
  text: string;
  /** The device that it is about. */
  deviceId: string | null;
  /** What is asked for in place of a goal. */
  requestedAction: ActionCall | null;
  /** What was measured. */
  data: JsonObject;
  /** What somebody wrote beside it. */
  note: string;
  nodes: readonly Node[];
}

/** All that a planner is given. The same view, the same thoughts: a planner remembers nothing. */
export interface PlannerInput {
  context: Context;
  devices: readonly Device[];
  memories: readonly Memory[];
  /** In this stream. */
  refusals: readonly Refusal[];
}

/** How it goes on with a context none of whose steps is under way. */
export type Decision =
  /** `because` says why, in a sentence. */
  | { steps: readonly [Step, ...Step[]]; because: string }
  | { done: string; finalState: JsonObject }
  /** `code` is upper snake case, `failed` an honest sentence for whoever asked. */
  | { failed: string; code: string };

export interface Planner {
  readonly name: string;
  /** Seconds that one thought may take; 0: it is at once. */
  readonly timeoutS: number;
  decide(view: PlannerInput, signal: AbortSignal): Promise<Decision>;
}

/** A context has no more steps. */
export const MAX_STEPS = 100;

/** What people call a device. */
export const displayNameOf = (device: Device): string => device.name ?? device.type;
