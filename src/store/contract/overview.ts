import type { EpochMs, Uuid } from '../../domain/values.ts';

/** Data of the tenant's overview page. */
export interface TenantOverview {
  /** Without revoked devices. */
  devices: { total: number; online: number };
  /** Number of the newest commands by status. */
  commands: Readonly<Record<string, number>>;
  /** Devices with failed or timed-out commands, most failures first. */
  failing: readonly { deviceId: Uuid; name: string | null; failures: number }[];
  /** Plans whose rollback failed, newest first. */
  rollbacksFailed: readonly { id: Uuid; name: string | null; since: EpochMs }[];
}

/** Counts commands and plans created since `since`. */
export type OverviewQuery = (tenantId: Uuid, since: EpochMs) => Promise<TenantOverview>;
