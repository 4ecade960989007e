import type { Compensation, OnFailure, PlanStatus, StepStatus } from '../domain/plan.ts';
import type { Scope } from '../domain/scopes.ts';
import type { EpochMs, JsonObject, Milliseconds, Principal, Uuid } from '../domain/values.ts';
import type { PlanTell } from './outputs.ts';

/** A step as it is asked for. */
export interface StepWish {
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

export interface PlanStep extends StepWish {
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
}

interface Base {
  at: EpochMs;
  by?: Principal;
}

export type PlanEvent =
  | (Base & {
      type: 'create';
      plan: Pick<PlanContext, 'id' | 'tenantId' | 'name' | 'onFailure' | 'createdBy' | 'scopes' | 'requestId'> & {
        steps: readonly StepWish[];
      };
    })
  /** Nothing new starts, what was not written is taken back, what was done is undone. */
  | (Base & { type: 'cancel'; by: Principal; reason?: string })
  /** Asked for, and there is no command: the creator may no longer, or the device is gone. */
  | (Base & { type: 'step.refused'; stepId: string; commandId: Uuid; error: StepError })
  /** Not now: a flag is set, or the tenant suspended. */
  | (Base & { type: 'step.held'; stepId: string; commandId: Uuid; forMs: Milliseconds })
  | (Base & PlanTell);
