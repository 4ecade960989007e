import { CONTEXT_LIFE_MS, type PlannerPhase } from './cognition.ts';
import type { ShapingMemory } from './memory.ts';
import type { Compensation } from './plan.ts';
import type { EpochMs, JsonObject, Principal, Uuid } from './values.ts';

export const proposalStatuses = ['pending', 'accepted', 'refused', 'expired'] as const;
export type ProposalStatus = (typeof proposalStatuses)[number];

/** A proposed step. */
export interface ProposedStep {
  id: string;
  deviceId: Uuid;
  action: string;
  params: JsonObject;
  dependsOn: readonly string[];
  compensation: Compensation | null;
  timeoutS: number | null;
}

/** An observation and the steps proposed for it, which run when a user accepts them. */
export interface Proposal {
  /** UUID version 7. */
  id: Uuid;
  tenantId: Uuid;
  deviceId: Uuid;
  /** The device's home at the time of the observation. */
  homeId: Uuid | null;
  /** The measured values. */
  data: JsonObject;
  /** A remark by the observer. */
  note: string | null;
  askedBy: Principal;
  /** The stored status; `proposalStatusOf` derives `expired`. */
  status: Exclude<ProposalStatus, 'expired'>;
  /** Why the steps, or no steps, are proposed. For a refused proposal: the reason for the refusal, if one was given. */
  reason: string | null;
  /** Shown, and open for acceptance, once the planner is done. */
  steps: readonly ProposedStep[];
  /** The memories that shaped the steps; null: none. */
  memories: readonly ShapingMemory[] | null;
  /** The planner's progress. */
  phase: PlannerPhase;
  /** The plan created on acceptance. */
  planId: Uuid | null;
  createdAt: EpochMs;
  /** When the planner was done. */
  spokenAt: EpochMs | null;
}

export const expiryOf = ({ createdAt }: Pick<Proposal, 'createdAt'>): EpochMs => createdAt + CONTEXT_LIFE_MS;

/**
 * Contract §6: a pending proposal expires a day after its observation. One without steps is refused when the planner is
 * done: it can never be accepted.
 */
export function proposalStatusOf(
  { status, phase, steps, createdAt }: Pick<Proposal, 'status' | 'phase' | 'steps' | 'createdAt'>,
  now: EpochMs,
): ProposalStatus {
  if (status !== 'pending') return status;
  if (phase === 'done' && steps.length === 0) return 'refused';
  return now >= expiryOf({ createdAt }) ? 'expired' : 'pending';
}
