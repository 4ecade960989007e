import type { CommandStatus } from '../domain/command.ts';
import type { PlanStatus } from '../domain/plan.ts';
import type { EpochMs, Uuid } from '../domain/values.ts';

// Columns of each actor kind, derived from its state and context. Lists and filters read them. The definitions of the
// machines and the tables of the store are checked against these types: aliases, which are JSON objects to the compiler.

export type DeviceColumns = {
  device_type: string;
  home_id: Uuid | null;
  room_id: Uuid | null;
  category: string | null;
  firmware: string | null;
  revoked: boolean;
  deleted: boolean;
  online: boolean;
  created_at: EpochMs;
};

export type CommandColumns = {
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
};

export type PlanColumns = {
  status: PlanStatus;
  over: boolean;
  /** True while the plan waits for the planner. */
  thought: boolean;
  created_at: EpochMs;
};

export type TenantColumns = {
  name: string;
  slug: string;
  suspended: boolean;
  created_at: EpochMs;
};

/** The columns by actor kind. A new kind needs a member here. */
export interface ActorColumns {
  device: DeviceColumns;
  command: CommandColumns;
  tenant: TenantColumns;
  plan: PlanColumns;
}
