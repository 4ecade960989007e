import type { Proposal } from '../../domain/proposal.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page, Position } from './page.ts';

/** What changes of a proposal; that it is accepted joins the commit of its plan (`proposal.accept`). */
export type ProposalChanges = Partial<Pick<Proposal, 'status' | 'reason' | 'steps' | 'phase' | 'spokenAt'>>;

/** What observations led to: plain records. */
export interface ProposalStore {
  /**
   * Of a tenant at most `mostOpen` wait for a sidecar: the oldest beyond are given up, for the reason `givenUp`. Answers with
   * the ids of those.
   */
  insert(proposal: Proposal, mostOpen: number, givenUp: string, also?: IdempotencyRow | null): Promise<Uuid[]>;
  find(id: Uuid): Promise<Proposal | null>;
  /** The tenant's, newest first. */
  list(tenantId: Uuid, limit: number, after?: Position): Promise<Page<Proposal>>;
  /** Changes what is pending; null where it is not, or not there. A phase changes until it is `done`: that stays. */
  change(id: Uuid, changes: ProposalChanges, also?: IdempotencyRow | null): Promise<Proposal | null>;
  /**
   * Those made after `since` that wait for a sidecar, oldest first, of one tenant or of all that are not suspended. The next
   * page begins after the position.
   */
  open(since: EpochMs, limit: number, after?: Position, tenantId?: Uuid): Promise<Page<Proposal>>;
}
