import type { Position } from '../../domain/cursor.ts';
import type { Proposal } from '../../domain/proposal.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page } from './page.ts';

/** Mutable fields of a proposal; its acceptance is part of the commit of its plan (`proposal.accept`). */
export type ProposalChanges = Partial<
  Pick<Proposal, 'status' | 'reason' | 'steps' | 'memories' | 'phase' | 'spokenAt'>
>;

/** Proposals that result from observations: plain records. */
export interface ProposalStore {
  /**
   * A tenant may have at most `mostOpen` open proposals: older ones are closed with the reason `givenUp`. Returns their
   * ids.
   */
  insert(proposal: Proposal, mostOpen: number, givenUp: string, idempotency?: IdempotencyRow | null): Promise<Uuid[]>;
  find(id: Uuid): Promise<Proposal | null>;
  /** The tenant's proposals, newest first. */
  list(tenantId: Uuid, limit: number, after?: Position): Promise<Page<Proposal>>;
  /** Changes a pending proposal; null if it is not pending or does not exist. The phase `done` is final. */
  change(id: Uuid, changes: ProposalChanges, idempotency?: IdempotencyRow | null): Promise<Proposal | null>;
  /**
   * Proposals created after `since` that wait for a sidecar, oldest first: of one tenant, or of all tenants that are
   * not suspended. The next page begins after `after`.
   */
  open(since: EpochMs, limit: number, after?: Position, tenantId?: Uuid): Promise<Page<Proposal>>;
}
