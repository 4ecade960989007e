import { type CommandStatus, LATE_ACK_MS, MAX_TIMEOUT_FACTOR, MAX_TIMEOUT_S, MAX_TTL_S } from '../../domain/command.ts';
import type { Position } from '../../domain/cursor.ts';
import { MAX_CONFIRM_TTL_S } from '../../domain/policy.ts';
import type { OwnedShards } from '../../domain/shards.ts';
import type { EpochMs, JsonObject, Milliseconds, Uuid } from '../../domain/values.ts';
import type { StoredActor } from './actor-rows.ts';
import type { Page } from './page.ts';

export interface CommandFilter {
  /** Undefined: of all devices. */
  deviceIds: readonly Uuid[] | undefined;
  status?: CommandStatus;
  /** The id of the user, device or service that requested it. */
  requestedBy?: string;
  /** Created at or after this time. */
  from?: EpochMs;
  /** Created before this time. */
  to?: EpochMs;
}

/** The time of a device's last report. */
export interface LastReport {
  deviceId: Uuid;
  at: EpochMs;
}

export interface ConfirmationFilter {
  /** Commands whose confirmation has expired by then are left out. */
  now: EpochMs;
  /** Requested dry runs; otherwise the commands that were to be sent. */
  dryRuns: boolean;
  /** Only commands of these devices; undefined: of all. */
  deviceIds?: readonly Uuid[] | undefined;
}

/**
 * How long before a report a command was created at most if the device may have executed it after the report: it waits for
 * its confirmation, then for its device, executes, and may be acknowledged late.
 */
export const MAX_COMMAND_AGE_MS: Milliseconds =
  (MAX_CONFIRM_TTL_S + MAX_TTL_S + MAX_TIMEOUT_S * MAX_TIMEOUT_FACTOR) * 1_000 + LATE_ACK_MS;

export interface CommandStore {
  /** History of one device, newest first. */
  list(tenantId: Uuid, deviceId: Uuid, limit: number, after?: Position): Promise<Page<StoredActor>>;
  /**
   * The tenant's commands, newest first. With a status, a requester, or for several devices, a page examines a limited
   * number of commands: it can have fewer entries than `limit` although there is a next page, and is then not counted.
   */
  listAll(tenantId: Uuid, filter: CommandFilter, limit: number, after?: Position): Promise<Page<StoredActor>>;
  /**
   * Those of the tenant's devices that may have executed a command since their last report: one that is executing or waits
   * for its verification, or one that ended without being verified and was sent, or possibly executed, since then. The
   * time of execution is at most that of the final ack, from which the verification counts, or of the timeout.
   */
  devicesWithUnreportedCommands(tenantId: Uuid, devices: readonly LastReport[]): Promise<Set<Uuid>>;
  /** The command that this token confirms: of one device, or of any device if `deviceId` is null. */
  byToken(tenantId: Uuid, deviceId: Uuid | null, tokenHash: string): Promise<{ id: Uuid; deviceId: Uuid } | null>;
  /** The tenant's commands that can still be confirmed, newest first. */
  awaitingConfirmation(
    tenantId: Uuid,
    filter: ConfirmationFilter,
    limit: number,
    after?: Position,
  ): Promise<Page<StoredActor>>;
  /**
   * Commands to write when a subscription is granted, oldest first: dispatched, not final, and created after the
   * device's last reinstatement.
   */
  deliverable(deviceId: Uuid): Promise<Uuid[]>;
  /**
   * The device's commands that are not final, oldest first. With `revokedAt`, and if the device is active again, only
   * those created by then.
   */
  open(deviceId: Uuid, revokedAt?: EpochMs): Promise<Uuid[]>;
  /**
   * Commands that are not final and whose device is revoked, deleted, or was reinstated after they were created;
   * ordered by command id.
   */
  openOnRevokedDevices(shards?: OwnedShards): Promise<{ deviceId: Uuid; commandId: Uuid }[]>;
  /** Dispatched commands with a pending verification, to watch again after a start. */
  awaitingVerification(
    shards?: OwnedShards,
  ): Promise<{ deviceId: Uuid; commandId: Uuid; expected: JsonObject; seen: boolean }[]>;
}
