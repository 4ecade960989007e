import type { ContextInput, PlannerPhase } from '../domain/cognition.ts';
import type { ShapingMemory } from '../domain/memory.ts';
import type { Compensation, OnFailure, PlanStatus, StepStatus } from '../domain/plan.ts';
import type { Scope } from '../domain/scopes.ts';
import {
  type EpochMs,
  type JsonObject,
  type Milliseconds,
  type Principal,
  SYSTEM,
  type Uuid,
} from '../domain/values.ts';
import type { MessageToPlan } from './outputs.ts';

/** A step as requested. */
export interface StepInput {
  id: string;
  deviceId: Uuid;
  action: string;
  /** Without the values of `writeOnly` parameters, as those of the compensation. */
  params: JsonObject;
  /** All parameters, sealed, until the step has a command; null when they were dropped. Absent: none are `writeOnly`. */
  sealedParams?: string | null;
  /** The same for the compensation, until it has run or the plan has ended. */
  sealedCompensation?: string | null;
  dependsOn: readonly string[];
  compensation: Compensation | null;
  /** Timeout of its command; null: the default. */
  timeoutS: number | null;
}

/** The reason of a failure. `code` is a refusal's code or the command's outcome. */
export interface StepError {
  code: string;
  detail: string;
}

export interface PlanStep extends StepInput {
  status: StepStatus;
  /** The command that executes it; the same id for every request. */
  commandId: Uuid | null;
  /**
   * Progress of the awaited command, the step's or its compensation's: `asked`: requested; `held`: deferred by a flag
   * or a suspension, requested again later; `made`: created, its outcome is awaited; `pausing`: until a compensation's
   * retry.
   */
  ask: 'asked' | 'held' | 'made' | 'pausing' | null;
  /** The tenant was suspended while its command was under way. */
  parked: boolean;
  /** Its device may have executed the command. */
  acted: boolean;
  /** Order in which the steps finished; compensations run in reverse order. */
  finished: number | null;
  undo: { commandId: Uuid; tries: number } | null;
  /** Reason of the failure. */
  error: StepError | null;
  /** Why it is not compensated: the error of the last attempt, or another obstacle. */
  undoError: StepError | null;
}

/** The input and progress of the external planner, which adds the plan's steps. */
export interface PlanCognition extends ContextInput {
  /** The accepted proposal, if the plan was created from one with all its steps. */
  proposalId: Uuid | null;
  phase: PlannerPhase;
  /** Deadline of the planner's next event, or end of its suspension; null while steps are under way. */
  dueAt: EpochMs | null;
  /** The end of the suspension that the running timer was set for. */
  armedFor: EpochMs | null;
  /** The deadline passed; the check whether a flag or a suspension excuses it is in flight. */
  overdue: boolean;
  /** The planner's final summary. */
  summary: string | null;
  finalState: JsonObject | null;
  /** The planner's reason for its last suspension; absent: it was never suspended. */
  suspensionReason?: string;
  /** Why planning failed. */
  error: StepError | null;
  /** The memories that shaped steps, as named by the planner; absent: none. */
  memories?: readonly ShapingMemory[];
}

export interface PlanContext {
  fixed: PlanFixed;
  live: PlanLive;
}

/** The request, without its steps. */
export interface PlanFixed {
  id: Uuid;
  tenantId: Uuid;
  name: string | null;
  onFailure: OnFailure;
  /** The principal whose authority each step needs. */
  createdBy: Principal;
  /** Scopes of the request's token; null if it had none. The scopes of an API key are looked up at each step. */
  scopes: readonly Scope[] | null;
  requestId: string;
  createdAt: EpochMs;
}

/** Progress: the steps and, with a planner, its part in them. */
export interface PlanLive {
  finishedAt: EpochMs | null;
  /** The status of the lifecycle region, duplicated here from the chart's value. */
  status: PlanStatus;
  steps: readonly PlanStep[];
  /** Why no further steps start: cancelled by a user, or a step failed with policy `rollback` or `stop`. */
  ending: 'cancel' | 'rollback' | 'stop' | null;
  /** Number of final steps. */
  finished: number;
  /** When held and pausing commands are requested again. */
  wakeAt: EpochMs | null;
  /** Null if the plan was created with all its steps by the request. */
  cognition: PlanCognition | null;
}

interface Base {
  at: EpochMs;
  by?: Principal;
}

/** The context before the first event. A field that is missing here does not compile. */
export const initialPlan: PlanContext = {
  fixed: {
    id: '',
    tenantId: '',
    name: null,
    onFailure: 'rollback',
    createdBy: SYSTEM,
    scopes: null,
    requestId: '',
    createdAt: 0,
  },
  live: {
    finishedAt: null,
    status: 'pending',
    steps: [],
    ending: null,
    finished: 0,
    wakeAt: null,
    cognition: null,
  },
};

export type PlanEvent =
  | (Base & {
      type: 'create';
      plan: Pick<PlanFixed, 'id' | 'tenantId' | 'name' | 'onFailure' | 'createdBy' | 'scopes' | 'requestId'> & {
        steps: readonly StepInput[];
        /** Set if a planner adds the steps one by one, or if they come from the accepted proposal of an observation. */
        cognition?: ContextInput & Pick<PlanCognition, 'proposalId' | 'memories'>;
      };
    })
  /** Starts no further steps, withdraws commands that are not written, and compensates finished steps. */
  | (Base & { type: 'cancel'; by: Principal; reason?: string })
  /** The requested command was refused: the creator lost the permission, or the device was deleted. */
  | (Base & { type: 'step.refused'; stepId: string; commandId: Uuid; error: StepError })
  /** The requested command is deferred: a flag is set, or the tenant is suspended. */
  | (Base & { type: 'step.held'; stepId: string; commandId: Uuid; forMs: Milliseconds })
  /** The planner adds a step. */
  | (Base & { type: 'node.proposed'; node: StepInput; memories?: readonly Omit<ShapingMemory, 'steps'>[] })
  | (Base & { type: 'cognition.suspended'; reason: string; forMs: Milliseconds })
  | (Base & { type: 'cognition.completed'; summary: string; finalState: JsonObject | null })
  | (Base & { type: 'cognition.failed'; error: StepError })
  /** The planner sent nothing until `dueAt`, excused by a flag or the tenant's suspension. */
  | (Base & { type: 'cognition.excused'; dueAt: EpochMs; forMs: Milliseconds })
  /** The planner sent nothing until `dueAt`, without an excuse. */
  | (Base & { type: 'cognition.unheard'; dueAt: EpochMs })
  | (Base & MessageToPlan);
