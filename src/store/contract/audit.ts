import type { Position } from '../../domain/cursor.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Page } from './page.ts';

/** An action that a user performed or was refused, from an audit row or from an actor's journal. */
export interface AuditEntry {
  at: EpochMs;
  /** User id. */
  by: Uuid;
  /** Prefix of the API key, if the user acted through one. */
  key: string | null;
  /** Edge that received the request. */
  via: string | null;
  /** Name of the operation. */
  action: string;
  /** `<type>:<id>`, such as `home:<id>`. */
  subject: string;
  /** `done`, or the refusal code. */
  outcome: string;
  requestId: Uuid | null;
  /** The client's address; null if it is not known, as in a journal. */
  address: string | null;
  /** The client as it calls itself, such as a `User-Agent`; null likewise. */
  client: string | null;
  /** Above 1: the entry stands for so many repetitions of an earlier one. Of `exportHistoryRows`: so many rows, or none. */
  count: number;
}

/** An entry that is not a transition of an actor. */
export interface AuditRow extends AuditEntry {
  /** UUID version 7. */
  id: Uuid;
  /** Null if it concerns the whole service. */
  tenantId: Uuid | null;
}

export interface AuditFilter {
  by?: Uuid;
  action?: string;
  subject?: string;
  /** Range of time: `from` inclusive, `to` exclusive. */
  from?: EpochMs;
  to?: EpochMs;
}

export interface AuditStore {
  /** Existing rows are left unchanged, so an append with unknown outcome can be retried. */
  append(rows: readonly AuditRow[]): Promise<void>;
  /**
   * Audit rows and users' transitions of the tenant's actors, newest first. A call examines a limited number of
   * entries, so with a selective filter a page may be short or empty and still have a next one. `tenantId` null:
   * entries of the whole service.
   */
  list(tenantId: Uuid | null, filter: AuditFilter, limit: number, after?: Position): Promise<Page<AuditEntry>>;
}
