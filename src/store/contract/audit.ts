import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { Page, Position } from './page.ts';

/** Somebody did, or was refused, something: told by a row of its own, or by the journal of an actor. */
export interface AuditEntry {
  at: EpochMs;
  /** The user. */
  by: Uuid;
  /** The API key's prefix when the user acted through a key. */
  key: string | null;
  /** The edge. */
  via: string | null;
  /** The operation. */
  action: string;
  /** As `home:<id>`. */
  subject: string;
  /** `done`, or the code of the refusal. */
  outcome: string;
  requestId: Uuid | null;
}

/** An entry that is no actor's transition. */
export interface AuditRow extends AuditEntry {
  /** UUID version 7. */
  id: Uuid;
  /** Null for what concerns the whole service. */
  tenantId: Uuid | null;
}

export interface AuditFilter {
  by?: Uuid;
  action?: string;
  subject?: string;
  /** From this moment on, and before that one. */
  from?: EpochMs;
  to?: EpochMs;
}

export interface AuditStore {
  /** A row that is there already stays as it is: whoever does not know whether it was kept may append it again. */
  append(rows: readonly AuditRow[]): Promise<void>;
  /**
   * Rows and what users did to the tenant's actors, newest first. Where few entries fit the filter a page may be short, or
   * empty, and still have a next one: one call looks at so many entries at most. `tenantId` null: the whole service's.
   */
  list(tenantId: Uuid | null, filter: AuditFilter, limit: number, after?: Position): Promise<Page<AuditEntry>>;
}
