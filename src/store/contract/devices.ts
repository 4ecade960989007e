import type { ConnectionEvent } from '../../domain/connection-event.ts';
import type { Position } from '../../domain/cursor.ts';
import type { KeyRestriction } from '../../domain/key-restriction.ts';
import type { Manifest } from '../../domain/manifest.ts';
import type { OwnedShards } from '../../domain/shards.ts';
import type { Telemetry } from '../../domain/telemetry.ts';
import type { EpochMs, JsonObject, Uuid } from '../../domain/values.ts';
import type { DeviceKeyRow } from '../../machines/outputs.ts';
import type { Page } from './page.ts';

/** A device as shown in lists. */
export interface DeviceRow {
  id: Uuid;
  name: string | null;
  deviceType: string;
  category: string | null;
  homeId: Uuid | null;
  roomId: Uuid | null;
  firmware: string | null;
  revoked: boolean;
  online: boolean;
  lastSeen: EpochMs | null;
  battery: number | null;
  createdAt: EpochMs;
  /** In the order of their characters. */
  tags: readonly string[];
}

export interface DeviceFilter {
  homeId?: Uuid;
  roomId?: Uuid;
  deviceType?: string;
  category?: string;
  online?: boolean;
  revoked?: boolean;
  /** Only devices with these ids. */
  ids?: readonly Uuid[];
  /** Only devices with all of these tags; one at least. */
  tags?: readonly string[];
  /** Only devices with this text in the name, the type or a tag, or at the start of the id; the case of letters does not count. */
  text?: string;
}

/** A tag of a tenant's devices. */
export interface TagRow {
  tag: string;
  /** Number of the devices that have it; null if it is over `MAX_TAG_COUNTED`. */
  devices: number | null;
}

/** The most devices that are counted for a tag. */
export const MAX_TAG_COUNTED = 1_000;

/** A device key with its life cycle; the secret stays encrypted. */
export interface StoredDeviceKey extends DeviceKeyRow {
  graceUntil: EpochMs | null;
  lastUsedAt: EpochMs | null;
  endedAt: EpochMs | null;
  status: 'active' | 'grace' | 'retired' | 'revoked';
}

export interface PresenceFlush {
  deviceId: Uuid;
  lastSeen: EpochMs;
  /** Percent, if a heartbeat reported it. */
  battery?: number;
  /** Members that were reported; the others keep their values. */
  telemetry?: Telemetry;
  /** To add to the device's connection history, newest first. */
  connections?: readonly ConnectionEvent[];
  /** Number of rejected messages to add to the device's count. */
  refusals?: number;
  /** Key versions that the device signed in with. */
  keys?: readonly { version: number; usedAt: EpochMs }[];
}

/** The last activity of a device. */
export interface DeviceLastSeen {
  lastSeen: EpochMs | null;
  battery: number | null;
  /** Null if the device has reported nothing. */
  telemetry: Telemetry | null;
  refusals: number;
}

export interface DeviceStore {
  list(tenantId: Uuid, filter: DeviceFilter, limit: number, after?: Position): Promise<Page<DeviceRow>>;
  /** The newest devices in each of the homes or rooms, newest first; only those of `among`, unless it is missing. */
  inPlaces(
    tenantId: Uuid,
    place: 'homeId' | 'roomId',
    ids: readonly Uuid[],
    each: number,
    among?: readonly Uuid[],
  ): Promise<DeviceRow[]>;
  /** Rows of these ids that belong to the tenant, in any order. */
  find(tenantId: Uuid, ids: readonly Uuid[]): Promise<DeviceRow[]>;
  /** The tags of the tenant's devices, or of those of `among`, in the order of their characters. The id of a position is a tag; several pages are not counted. */
  tags(tenantId: Uuid, limit: number, after?: Position, among?: readonly Uuid[]): Promise<Page<TagRow>>;
  /** Ids of the devices of a room, for its commands, revoked ones last; `category` narrows. */
  inRoom(tenantId: Uuid, roomId: Uuid, category?: string): Promise<Uuid[]>;
  count(tenantId: Uuid): Promise<number>;
  /** All devices that a restriction reaches, also revoked ones, in any order. */
  within(tenantId: Uuid, restriction: KeyRestriction): Promise<Pick<DeviceRow, 'id' | 'homeId' | 'roomId'>[]>;
  /** Active devices in the whole service, for `BETA_DEVICE_LIMIT`. */
  countActive(): Promise<number>;
  /** Runs `work`, which counts active devices and then adds one, while no other node does so. */
  withActivationLock<T>(work: () => Promise<T>): Promise<T>;
  countActiveInHome(tenantId: Uuid, homeId: Uuid): Promise<number>;
  /** All devices placed in the home or room, including revoked ones. */
  placedIn(tenantId: Uuid, place: { homeId: Uuid } | { roomId: Uuid }): Promise<Uuid[]>;
  /** Batched: the keys that may still verify a signature, for sign-in. */
  validKeys(ids: readonly Uuid[]): Promise<Map<Uuid, StoredDeviceKey[]>>;
  keyHistory(deviceId: Uuid): Promise<StoredDeviceKey[]>;
  manifests(ids: readonly Uuid[]): Promise<Manifest[]>;
  flushPresence(rows: readonly PresenceFlush[]): Promise<void>;
  /** Devices without a message so far are left out. */
  lastSeen(ids: readonly Uuid[]): Promise<Map<Uuid, DeviceLastSeen>>;
  /** The connection histories of devices, newest first; at most `MAX_CONNECTION_EVENTS` of each. Devices without one are left out. */
  connections(ids: readonly Uuid[]): Promise<ReadonlyMap<Uuid, readonly ConnectionEvent[]>>;
  /** Devices of these shards that are stored as online. */
  online(shards?: OwnedShards): Promise<Uuid[]>;
  /** Full reported states, for the snapshot that opens a WebSocket subscription. */
  states(
    tenantId: Uuid,
    ids?: readonly Uuid[],
  ): Promise<{ deviceId: Uuid; state: JsonObject; stateVersion: number; reportedAt: EpochMs | null }[]>;
}
