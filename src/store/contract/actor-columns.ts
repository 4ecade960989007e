import type { CommandStatus } from '../../domain/command.ts';
import type { PlanStatus } from '../../domain/plan.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';

// Columns of each actor kind, derived from its state and context. Lists and filters read them.

/** Derived by `machines/device-record.ts`. */
export interface DeviceColumns {
  device_type: string;
  home_id: Uuid | null;
  room_id: Uuid | null;
  category: string | null;
  firmware: string | null;
  revoked: boolean;
  deleted: boolean;
  online: boolean;
  created_at: EpochMs;
}

/** Derived by `machines/command-record.ts`. */
export interface CommandColumns {
  device_id: Uuid;
  action: string;
  status: CommandStatus;
  /** `pending` while the device's reports are compared with the expected state; otherwise the verification's status. */
  verification: string;
  critical: boolean;
  written: boolean;
  /** SHA-256 hex of a dry-run token that can still be confirmed, otherwise null. */
  token_hash: string | null;
  created_at: EpochMs;
}

/** Derived by `machines/plan-record.ts`. */
export interface PlanColumns {
  status: PlanStatus;
  over: boolean;
  /** True while the plan waits for the planner. */
  thought: boolean;
  created_at: EpochMs;
}

/** Derived by `machines/tenant-record.ts`. */
export interface TenantColumns {
  name: string;
  slug: string;
  suspended: boolean;
  created_at: EpochMs;
}
