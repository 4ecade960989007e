import type { ChangeRequest, WaitingLimits } from '../../domain/change-request.ts';
import type { Position } from '../../domain/cursor.ts';
import type { EpochMs, Principal, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page } from './page.ts';

/** The end of a change request. */
export interface ChangeRequestEnd {
  /** `applied`: to plain records, before this; the commit of an actor ends it itself. */
  status: 'applied' | 'refused' | 'outdated';
  decidedBy: Principal;
  decidedAt: EpochMs;
  reason: string | null;
}

/** `own` and `all`: the limit that was reached. `ended`: the request to replace no longer waits. */
export type ChangeRequestInsertion = 'inserted' | 'own' | 'all' | 'ended';

/** Changes that wait for a confirmation, and those that have ended: plain records. */
export interface ChangeRequestStore {
  /**
   * Inserts a request and ends those that it replaces as `outdated`, decided by `by`: the one with the id `replaces`, and
   * those that the same requester made with the same operation and subject. The limits are compared with the others that
   * wait at its `createdAt`, unless it replaces one that waits; by the policy, none waits that was created at
   * `expiredUntil` or earlier. Nothing is stored or ended unless it is inserted. Calls
   * for one tenant must not overlap, because the statement counts what is committed.
   */
  insert(
    request: ChangeRequest,
    limits: WaitingLimits,
    replacing: { by: Principal; replaces?: Uuid | undefined; expiredUntil?: EpochMs },
    idempotency?: IdempotencyRow | null,
  ): Promise<ChangeRequestInsertion>;
  find(id: Uuid): Promise<ChangeRequest | null>;
  /** The tenant's change requests, newest first; with `waitingAt`, those that wait for a confirmation at this time. */
  list(tenantId: Uuid, filter: { waitingAt?: EpochMs }, limit: number, after?: Position): Promise<Page<ChangeRequest>>;
  /**
   * Ends a request that waits, expired or not; null if it has ended or does not exist. Its application is part of the
   * commit of what it changes (`change.apply`).
   */
  end(id: Uuid, end: ChangeRequestEnd, idempotency?: IdempotencyRow | null): Promise<ChangeRequest | null>;
}
