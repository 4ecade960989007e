import type { ChangeRequest } from '../../domain/change-request.ts';
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

/** Changes that wait for a confirmation, and those that have ended: plain records. */
export interface ChangeRequestStore {
  /** False, and nothing is stored, if `mostWaiting` requests of the tenant already wait at its `createdAt`. */
  insert(request: ChangeRequest, mostWaiting: number, idempotency?: IdempotencyRow | null): Promise<boolean>;
  find(id: Uuid): Promise<ChangeRequest | null>;
  /** The tenant's change requests, newest first; with `waitingAt`, those that wait for a confirmation at this time. */
  list(tenantId: Uuid, filter: { waitingAt?: EpochMs }, limit: number, after?: Position): Promise<Page<ChangeRequest>>;
  /**
   * Ends a request that waits, expired or not; null if it has ended or does not exist. Its application is part of the
   * commit of what it changes (`change.apply`).
   */
  end(id: Uuid, end: ChangeRequestEnd, idempotency?: IdempotencyRow | null): Promise<ChangeRequest | null>;
}
