import type { Position } from '../../domain/cursor.ts';
import type { OwnedShards } from '../../domain/shards.ts';
import type { EpochMs, JsonObject, Uuid } from '../../domain/values.ts';
import type { StoredActor } from './actor-rows.ts';
import type { Page } from './page.ts';

export interface CommandStore {
  /** History of one device, newest first. */
  list(tenantId: Uuid, deviceId: Uuid, limit: number, after?: Position): Promise<Page<StoredActor>>;
  /** The command that this token confirms: of one device, or of any device if `deviceId` is null. */
  byToken(tenantId: Uuid, deviceId: Uuid | null, tokenHash: string): Promise<{ id: Uuid; deviceId: Uuid } | null>;
  /** The tenant's commands that can still be confirmed at `now`, newest first; `deviceIds` narrows to these devices. */
  awaitingConfirmation(
    tenantId: Uuid,
    now: EpochMs,
    limit: number,
    after?: Position,
    deviceIds?: readonly Uuid[],
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
