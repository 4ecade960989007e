import type { ContextInput } from '../domain/cognition.ts';
import type { Compensation, OnFailure, PlanStatus, StepStatus } from '../domain/plan.ts';
import type { Scope } from '../domain/scopes.ts';
import type { EpochMs, JsonObject, Milliseconds, Principal, Uuid } from '../domain/values.ts';
import type { MessageToPlan } from './outputs.ts';

/** A step as it is asked for. */
export interface StepInput {
  id: string;
  deviceId: Uuid;
  action: string;
  params: JsonObject;
  dependsOn: readonly string[];
  compensation: Compensation | null;
  /** Of its command; null: the usual one. */
  timeoutS: number | null;
}

/** Why something failed. `code` is a refusal's, or says what became of the command. */
export interface StepError {
  code: string;
  detail: string;
}

export interface PlanStep extends StepInput {
  status: StepStatus;
  /** The command that does it; the same however often it is asked for. */
  commandId: Uuid | null;
  /**
   * Where the command that the step waits for stands, its own or the one that undoes it: asked for; held back by a flag or a
   * suspension, and asked for again later; made, and to be heard of; `pausing` until a compensation is tried again.
   */
  ask: 'asked' | 'held' | 'made' | 'pausing' | null;
  /** The tenant was suspended while its command was under way. */
  parked: boolean;
  /** Its device may have acted. */
  acted: boolean;
  /** How many were over when it was: what is undone goes backwards. */
  finished: number | null;
  undo: { commandId: Uuid; tries: number } | null;
  /** Why it failed. */
  error: StepError | null;
  /** Why it is not undone: what its last try came to, or what else stood in the way. */
  undoError: StepError | null;
}

/** What somebody outside is asked to think about, so that the plan gets its steps. */
export interface PlanCognition extends ContextInput {
  /** Of the proposal that was accepted: its steps were given with it. */
  proposalId: Uuid | null;
  /** `suspended`: whoever thinks waits for something. `done`: no step is added any more. */
  phase: 'thinking' | 'suspended' | 'done';
  /** When their silence, or their suspension, has lasted long enough; null while steps are under way. */
  dueAt: EpochMs | null;
  /** The end of the suspension that the running timer was set for. */
  armedFor: EpochMs | null;
  /** It has lasted long enough, and what is to come of that is being found out. */
  overdue: boolean;
  /** What they ended with. */
  summary: string | null;
  finalState: JsonObject | null;
  /** Why they did not come to an end. */
  error: StepError | null;
}

/** Nineteen fields at most: V8 copies an object of more as a slow dictionary, and each step of a transition copies this. */
export interface PlanContext {
  id: Uuid;
  tenantId: Uuid;
  name: string | null;
  onFailure: OnFailure;
  /** Whose authority each step needs. */
  createdBy: Principal;
  /** Of the token that it was asked for with, null where that had none; a key's are looked up anew. */
  scopes: readonly Scope[] | null;
  requestId: string;
  createdAt: EpochMs;
  finishedAt: EpochMs | null;
  /** The word for where the lifecycle stands, kept beside the chart's value. */
  status: PlanStatus;
  steps: readonly PlanStep[];
  /** Why nothing new starts: somebody cancelled it; a step failed and is to be rolled back; or it just stops. */
  ending: 'cancel' | 'rollback' | 'stop' | null;
  /** How many steps are over. */
  finished: number;
  /** When what is held back or paused is asked for again. */
  wakeAt: EpochMs | null;
  /** Null: its steps were given with it. */
  cognition: PlanCognition | null;
}

interface Base {
  at: EpochMs;
  by?: Principal;
}

export type PlanEvent =
  | (Base & {
      type: 'create';
      plan: Pick<PlanContext, 'id' | 'tenantId' | 'name' | 'onFailure' | 'createdBy' | 'scopes' | 'requestId'> & {
        steps: readonly StepInput[];
        /** Its steps come one by one, or came from the accepted proposal of an observation. */
        cognition?: ContextInput & { proposalId: Uuid | null };
      };
    })
  /** Nothing new starts, what was not written is taken back, what was done is undone. */
  | (Base & { type: 'cancel'; by: Principal; reason?: string })
  /** Asked for, and there is no command: the creator may no longer, or the device is gone. */
  | (Base & { type: 'step.refused'; stepId: string; commandId: Uuid; error: StepError })
  /** Not now: a flag is set, or the tenant suspended. */
  | (Base & { type: 'step.held'; stepId: string; commandId: Uuid; forMs: Milliseconds })
  /** One more step, from whoever thinks. */
  | (Base & { type: 'node.proposed'; node: StepInput })
  | (Base & { type: 'cognition.suspended'; reason: string; forMs: Milliseconds })
  | (Base & { type: 'cognition.completed'; summary: string; finalState: JsonObject | null })
  | (Base & { type: 'cognition.failed'; error: StepError })
  /** They were silent until `dueAt`, and may be for longer: a flag is set, or the tenant suspended. */
  | (Base & { type: 'cognition.excused'; dueAt: EpochMs; forMs: Milliseconds })
  /** They were silent until `dueAt`, and nothing excuses it. */
  | (Base & { type: 'cognition.unheard'; dueAt: EpochMs })
  | (Base & MessageToPlan);
