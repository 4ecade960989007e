import { CONTEXT_LIFE_MS } from './cognition.ts';
import type { Compensation } from './plan.ts';
import type { EpochMs, JsonObject, Principal, Uuid } from './values.ts';

export const proposalStatuses = ['pending', 'accepted', 'refused', 'expired'] as const;
export type ProposalStatus = (typeof proposalStatuses)[number];

/** A step as it was proposed. */
export interface ProposedStep {
  id: string;
  deviceId: Uuid;
  action: string;
  params: JsonObject;
  dependsOn: readonly string[];
  compensation: Compensation | null;
  timeoutS: number | null;
}

/** An observation, and what it may lead to when somebody accepts it. */
export interface Proposal {
  /** UUID version 7. */
  id: Uuid;
  tenantId: Uuid;
  deviceId: Uuid;
  /** Of the device, when it was observed. */
  homeId: Uuid | null;
  /** What was measured. */
  data: JsonObject;
  /** What whoever observed it said beside it. */
  note: string | null;
  askedBy: Principal;
  /** As it is kept: one that expired is told by `statusOf`. */
  status: Exclude<ProposalStatus, 'expired'>;
  /** Why it is proposed, or why nothing is; of a refused one the refuser's word, where they gave one. */
  reason: string | null;
  /** Shown and accepted when whoever thinks is done. */
  steps: readonly ProposedStep[];
  /** Where whoever thinks about it stands. */
  phase: 'thinking' | 'suspended' | 'done';
  /** Of the plan that it came to. */
  planId: Uuid | null;
  createdAt: EpochMs;
  /** When whoever thinks was done. */
  spokenAt: EpochMs | null;
}

export const expiryOf = ({ createdAt }: Pick<Proposal, 'createdAt'>): EpochMs => createdAt + CONTEXT_LIFE_MS;

/** Contract §6: nobody accepts what was observed a day ago. */
export const statusOf = (proposal: Pick<Proposal, 'status' | 'createdAt'>, now: EpochMs): ProposalStatus =>
  proposal.status === 'pending' && now >= expiryOf(proposal) ? 'expired' : proposal.status;
