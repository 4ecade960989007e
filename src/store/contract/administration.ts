import type { Position } from '../../domain/cursor.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page } from './page.ts';

/** A tenant as listed for platform operators. */
export interface TenantRow {
  id: Uuid;
  name: string;
  slug: string;
  suspended: boolean;
  tier: string;
  createdAt: EpochMs;
}

/** Queries and settings for platform operators only. */
export interface AdministrationStore {
  /** All tenants, newest first. */
  tenants(limit: number, after?: Position): Promise<Page<TenantRow>>;
  flags(): Promise<Record<string, boolean>>;
  setFlag(flag: string, state: boolean, idempotency?: IdempotencyRow | null): Promise<void>;
}
