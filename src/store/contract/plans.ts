import type { Position } from '../../domain/cursor.ts';
import type { Uuid } from '../../domain/values.ts';
import type { StoredActor } from './actor-rows.ts';
import type { Page } from './page.ts';

export interface PlanStore {
  /** The tenant's plans, newest first. */
  list(tenantId: Uuid, limit: number, after?: Position): Promise<Page<StoredActor>>;
  /** Plans that are not over and can receive messages (not quarantined). */
  open(tenantId: Uuid): Promise<Uuid[]>;
  /**
   * Plans that wait for the planner, oldest first, without quarantined ones: of one tenant, or of all tenants that are
   * not suspended. The next page begins after `after`.
   */
  awaitingPlanner(limit: number, after?: Position, tenantId?: Uuid): Promise<Page<Uuid>>;
}
