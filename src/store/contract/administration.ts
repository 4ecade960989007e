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

/** What a shard contains. */
export interface ShardContents {
  shard: number;
  tenants: number;
  /** Not deleted. */
  devices: number;
}

/** Queries and settings for platform operators only. */
export interface AdministrationStore {
  /** All tenants, newest first. */
  tenants(limit: number, after?: Position): Promise<Page<TenantRow>>;
  /** The shards that are not empty, in any order. */
  contentsByShard(): Promise<ShardContents[]>;
  flags(): Promise<Record<string, boolean>>;
  setFlag(flag: string, state: boolean, idempotency?: IdempotencyRow | null): Promise<void>;
}
