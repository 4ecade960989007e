import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page, Position } from './page.ts';

/** A tenant as platform operators list it. */
export interface TenantRow {
  id: Uuid;
  name: string;
  slug: string;
  suspended: boolean;
  tier: string;
  createdAt: EpochMs;
}

/** What only platform operators ask for. */
export interface AdministrationStore {
  /** All tenants, newest first. */
  tenants(limit: number, after?: Position): Promise<Page<TenantRow>>;
  flags(): Promise<Record<string, boolean>>;
  setFlag(flag: string, state: boolean, also?: IdempotencyRow | null): Promise<void>;
}
