import type { EpochMs, Uuid } from '../../domain/values.ts';

/** What a tenant's people see first. */
export interface TenantOverview {
  devices: { total: number; online: number };
  /** How many of the newest commands have a status. */
  commands: Readonly<Record<string, number>>;
  /** Devices whose commands failed or had no answer, the worst first. */
  failing: readonly { deviceId: Uuid; name: string | null; failures: number }[];
  /** Plans that could not be undone, the newest first. */
  rollbacksFailed: readonly { id: Uuid; name: string | null; since: EpochMs }[];
}

/** Commands and plans are those that were made since then. */
export type Overview = (tenantId: Uuid, since: EpochMs) => Promise<TenantOverview>;
