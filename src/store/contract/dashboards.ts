import type { Position } from '../../domain/cursor.ts';
import type { Dashboard, DashboardSummary } from '../../domain/dashboard.ts';
import type { Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page } from './page.ts';

/** Dashboards of tenants. */
export interface DashboardStore {
  insert(dashboard: Dashboard, idempotency?: IdempotencyRow | null): Promise<void>;
  /** Newest first, without their tiles; only those of this home, unless it is null. */
  list(tenantId: Uuid, homeId: Uuid | null, limit: number, after?: Position): Promise<Page<DashboardSummary>>;
  find(tenantId: Uuid, id: Uuid): Promise<Dashboard | null>;
  count(tenantId: Uuid): Promise<number>;
  /** Stores `dashboard` if the stored one has the version before it. False otherwise, and if there is none. */
  replace(dashboard: Dashboard, idempotency?: IdempotencyRow | null): Promise<boolean>;
  /** False if it does not exist. */
  delete(tenantId: Uuid, id: Uuid): Promise<boolean>;
}
