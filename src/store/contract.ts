import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { CommandStatus } from '../domain/command.ts';
import type { Capability, Manifest } from '../domain/manifest.ts';
import type { PlanStatus } from '../domain/plan.ts';
import type { Role } from '../domain/roles.ts';
import type { EpochMs, Json, JsonObject, Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef, DeviceKeyRow, DurableOutput, RowOutput } from '../machines/outputs.ts';
import type { JournalEntry, StoredActor, TimerRow } from './contract/actor-rows.ts';
import type { AdministrationStore } from './contract/administration.ts';
import type { AuditStore } from './contract/audit.ts';
import type { FirmwareStore } from './contract/firmware.ts';
import type { IdempotencyRow, IdempotencyStore } from './contract/idempotency.ts';
import type { InspectionStore } from './contract/inspection.ts';
import type { ApiKeyStore, MemberStore } from './contract/members.ts';
import type { AgentMemoryStore } from './contract/memories.ts';
import type { Page, Position } from './contract/page.ts';
import type { ProposalStore } from './contract/proposals.ts';
import type { RetentionStore } from './contract/retention.ts';
import type { SessionTokenStore } from './contract/session-tokens.ts';

/*
 * What the rest of the service may ask of its store: domain verbs and batches, no SQL. PostgreSQL and PGlite stand behind
 * it with one schema. Everything here may throw a `StoreFault`; a value that was returned is durable.
 */

/** The store did not do it and can be asked again. */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable';
}

/** The connection was lost in COMMIT: it may or may not have happened. */
export class CommitUnknown extends Error {
  override name = 'CommitUnknown';
  /** Resolves when the commit has ended, where it is still in flight; null where no attempt is left. Never rejects. */
  readonly ended: Promise<void> | null;
  constructor(message: string, { ended = null, ...options }: ErrorOptions & { ended?: Promise<void> | null } = {}) {
    super(message, options);
    this.ended = ended;
  }
}

/** The data was refused (SQLSTATE class 22 or 23); nothing of the batch was kept. */
export class DataRefused extends Error {
  override name = 'DataRefused';
  readonly sqlState: string;
  constructor(sqlState: string, message: string) {
    super(message);
    this.sqlState = sqlState;
  }
}

/**
 * The `Idempotency-Key` of a write has a row that was not there when the request began: another attempt's. Nothing of the
 * batch was kept; the stored answer is the one to return.
 */
export class IdempotencyConflict extends DataRefused {
  override name = 'IdempotencyConflict';
}

/** An output that must be delivered, numbered so that a repeat is recognised. */
export interface OutboxRow {
  from: ActorRef;
  version: number;
  n: number;
  output: DurableOutput;
}
export type OutboxKey = Pick<OutboxRow, 'from' | 'version' | 'n'>;

/** One that was committed and not delivered. */
export interface PendingOutput extends OutboxRow {
  /** Its place in the order of their writing, from 1. */
  seq: number;
}

/** What one turn writes of one actor. All of it is kept, or, when the version read is no longer the row's, none of it. */
export interface ActorCommit {
  ref: ActorRef;
  tenantId: Uuid;
  /** The version that was decided on; 0 creates the row. */
  readVersion: number;
  version: number;
  machineVersion: number;
  value: Json;
  context: JsonObject;
  /** Members of `context` that most transitions change: kept apart, so that the others need not be written each time. */
  liveFields: ReadonlySet<string>;
  /** All other members are in the row as they are here, and with them the columns that they tell. */
  unchangedBase: boolean;
  /** Columns by kind: `DeviceColumns`, `CommandColumns`, `PlanColumns`, `TenantColumns`. */
  columns: JsonObject;
  since: EpochMs;
  journal: JournalEntry[];
  outbox: { n: number; output: DurableOutput }[];
  timers: { set: TimerRow[]; clear: string[] };
  rows: RowOutput[];
  idempotency: IdempotencyRow | null;
  /** Outbox rows that this transition answers: deleted with it, kept when it is lost. */
  delivered: OutboxKey[];
}

export interface BatchCommit {
  actors: ActorCommit[];
  /** Outbox rows that called for no transition: deleted in the same commit. `actors` may be empty. */
  delivered: OutboxKey[];
  /** All or nothing: where the version of one had moved on nothing is kept, and all actors are lost. */
  atomic?: boolean;
}

/** Columns that `machines/device.ts` writes beside its context; times are epoch milliseconds. */
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

export interface CommandColumns {
  device_id: Uuid;
  action: string;
  status: CommandStatus;
  /** `pending` while the device's reports are compared with the expected state; else the verification's status. */
  verification: string;
  critical: boolean;
  written: boolean;
  /** SHA-256 hex of a dry-run token that can still be confirmed, else null. */
  token_hash: string | null;
  created_at: EpochMs;
}

export interface TenantColumns {
  name: string;
  slug: string;
  suspended: boolean;
  created_at: EpochMs;
}

/** A timer of an actor that does not understand it any more. */
export interface UnhandledTimer extends Pick<TimerRow, 'ref' | 'id'> {
  /** The actor's, which did not. */
  version: number;
}

export interface ActorStore {
  /** Those of `ids` that exist; a deleted device does not. */
  load(kind: ActorKind, ids: readonly Uuid[]): Promise<StoredActor[]>;
  /** One statement batch. Answers the actors whose version had moved on (nothing of them was kept). */
  commit(turn: BatchCommit): Promise<{ lost: ActorRef[] }>;
  quarantine(ref: ActorRef, reason: string | null): Promise<void>;
  /** Timers due at or before `until`, oldest first. Firing does not delete: the transition's commit does. */
  dueTimers(until: EpochMs, limit: number): Promise<TimerRow[]>;
  /** Removes timers whose event nobody understood, unless they were set again for a time after `dueBy` or their actor has moved on. */
  dropTimers(timers: readonly UnhandledTimer[], dueBy: EpochMs): Promise<void>;
  /** Lets a timer come again at `until`, unless it was set again for a time after `dueBy`. */
  postponeTimer(timer: Pick<TimerRow, 'ref' | 'id'>, dueBy: EpochMs, until: EpochMs): Promise<void>;
  /** The due time of the earliest timer, or null. */
  nextTimerAt(): Promise<EpochMs | null>;
  /** Undelivered outputs in order of their writing, behind the place `after`. */
  pendingOutbox(limit: number, after: number): Promise<PendingOutput[]>;
  journal(ref: ActorRef, limit: number, before?: number): Promise<JournalEntry[]>;
}

/** The device as lists show it. */
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
}

export interface DeviceFilter {
  homeId?: Uuid;
  roomId?: Uuid;
  deviceType?: string;
  online?: boolean;
  revoked?: boolean;
}

/** One key of a device with its life; the secret stays sealed. */
export interface StoredDeviceKey extends DeviceKeyRow {
  graceUntil: EpochMs | null;
  lastUsedAt: EpochMs | null;
  endedAt: EpochMs | null;
  status: 'active' | 'grace' | 'retired' | 'revoked';
}

export interface PresenceFlush {
  deviceId: Uuid;
  lastSeen: EpochMs;
  /** Percent, where a heartbeat told it. */
  battery?: number;
  /** Refused messages to add to the device's count. */
  refusals?: number;
  /** Keys that it signed in with. */
  keys?: readonly { version: number; usedAt: EpochMs }[];
}

export interface DeviceStore {
  list(tenantId: Uuid, filter: DeviceFilter, limit: number, after?: Position): Promise<Page<DeviceRow>>;
  /** Rows of these ids that belong to the tenant, in any order. */
  find(tenantId: Uuid, ids: readonly Uuid[]): Promise<DeviceRow[]>;
  /** Ids of not revoked devices, for room and group commands; `category` narrows. */
  inRoom(tenantId: Uuid, roomId: Uuid, category?: string): Promise<Uuid[]>;
  count(tenantId: Uuid): Promise<number>;
  /** Active devices in the whole service, for `BETA_DEVICE_LIMIT`. */
  countActive(): Promise<number>;
  countActiveInHome(tenantId: Uuid, homeId: Uuid): Promise<number>;
  /** All devices placed in the home or room, revoked ones too. */
  placedIn(tenantId: Uuid, place: { homeId: Uuid } | { roomId: Uuid }): Promise<Uuid[]>;
  /** Batched: the keys that may still verify, for sign-in. */
  liveKeys(ids: readonly Uuid[]): Promise<Map<Uuid, StoredDeviceKey[]>>;
  keyHistory(deviceId: Uuid): Promise<StoredDeviceKey[]>;
  manifests(ids: readonly Uuid[]): Promise<Manifest[]>;
  flushPresence(rows: readonly PresenceFlush[]): Promise<void>;
  lastSeen(
    ids: readonly Uuid[],
  ): Promise<Map<Uuid, { lastSeen: EpochMs | null; battery: number | null; refusals: number }>>;
  /** Devices that were online when this process started. */
  online(): Promise<Uuid[]>;
  /** Whole reported states, for a snapshot on a WebSocket. */
  states(
    tenantId: Uuid,
    ids?: readonly Uuid[],
  ): Promise<{ deviceId: Uuid; state: JsonObject; stateVersion: number; reportedAt: EpochMs | null }[]>;
}

export interface CommandStore {
  /** History of one device, newest first. */
  list(tenantId: Uuid, deviceId: Uuid, limit: number, after?: Position): Promise<Page<StoredActor>>;
  /** The command that this token confirms; of one device, or with null of any. */
  byToken(tenantId: Uuid, deviceId: Uuid | null, tokenHash: string): Promise<{ id: Uuid; deviceId: Uuid } | null>;
  /** The tenant's commands that can still be confirmed at `now`, newest first. */
  awaitingConfirmation(tenantId: Uuid, now: EpochMs, limit: number, after?: Position): Promise<Page<StoredActor>>;
  /** Not final, dispatched, and not older than a reinstatement of the device: what a granted subscription writes, oldest first. */
  deliverable(deviceId: Uuid): Promise<Uuid[]>;
  /** The device's commands that are not final, oldest first; with `revokedAt`, if it is active again, those created by then. */
  open(deviceId: Uuid, revokedAt?: EpochMs): Promise<Uuid[]>;
  /** Commands that are not final and whose device is revoked or deleted, or was reinstated after they were created, by their ids. */
  openOnRevokedDevices(): Promise<{ deviceId: Uuid; commandId: Uuid }[]>;
  /** Commands whose verification is pending and that were dispatched, to watch again after a start. */
  awaitingVerification(): Promise<{ deviceId: Uuid; commandId: Uuid; expected: JsonObject; seen: boolean }[]>;
}

/** Columns that `machines/plan.ts` writes beside its context. */
export interface PlanColumns {
  status: PlanStatus;
  over: boolean;
  /** Somebody is to think about it. */
  thought: boolean;
  created_at: EpochMs;
}

export interface PlanStore {
  /** The tenant's plans, newest first. */
  list(tenantId: Uuid, limit: number, after?: Position): Promise<Page<StoredActor>>;
  /** Those that are not over and can be told something: not those in quarantine. */
  open(tenantId: Uuid): Promise<Uuid[]>;
  /**
   * Those that somebody is to think about, oldest first, of one tenant or of all that are not suspended; not those in
   * quarantine. The next page begins after the position.
   */
  awaitingPlanner(limit: number, after?: Position, tenantId?: Uuid): Promise<Page<Uuid>>;
}

export interface Home {
  id: Uuid;
  tenantId: Uuid;
  name: string;
  timezone: string | null;
  createdAt: EpochMs;
}
export interface Room {
  id: Uuid;
  tenantId: Uuid;
  homeId: Uuid;
  name: string;
  createdAt: EpochMs;
}
export interface Group {
  tenantId: Uuid;
  slug: string;
  name: string;
  description: string | null;
  deviceIds: Uuid[];
  createdAt: EpochMs;
}

/** Plain records. A write takes the idempotency row that must stand or fall with it. */
export interface RecordStore {
  insertHome(home: Home, also?: IdempotencyRow | null): Promise<void>;
  updateHome(tenantId: Uuid, id: Uuid, changes: { name?: string; timezone?: string | null }): Promise<Home | null>;
  /** False where it does not exist. Devices placed there are moved by the caller first. */
  deleteHome(tenantId: Uuid, id: Uuid): Promise<boolean>;
  home(tenantId: Uuid, id: Uuid): Promise<Home | null>;
  homes(tenantId: Uuid, limit: number, after?: Position): Promise<Page<Home>>;
  /** Those of these ids that the tenant has, in any order. */
  findHomes(tenantId: Uuid, ids: readonly Uuid[]): Promise<Home[]>;
  insertRoom(room: Room, also?: IdempotencyRow | null): Promise<void>;
  deleteRoom(tenantId: Uuid, homeId: Uuid, id: Uuid): Promise<boolean>;
  room(tenantId: Uuid, id: Uuid): Promise<Room | null>;
  rooms(tenantId: Uuid, homeId: Uuid, limit: number, after?: Position): Promise<Page<Room>>;
  /** Those of these ids that the tenant has, in any order. */
  findRooms(tenantId: Uuid, ids: readonly Uuid[]): Promise<Room[]>;
  /** The newest rooms of each home, newest first. */
  roomsOf(tenantId: Uuid, homeIds: readonly Uuid[], each: number): Promise<Room[]>;
  /** False where the slug is taken. */
  insertGroup(group: Group, also?: IdempotencyRow | null): Promise<boolean>;
  joinGroup(
    tenantId: Uuid,
    slug: string,
    deviceIds: readonly Uuid[],
    also?: IdempotencyRow | null,
  ): Promise<Group | null>;
  leaveGroup(tenantId: Uuid, slug: string, deviceId: Uuid): Promise<boolean>;
  deleteGroup(tenantId: Uuid, slug: string): Promise<boolean>;
  group(tenantId: Uuid, slug: string): Promise<Group | null>;
  groups(tenantId: Uuid, limit: number, after?: Position): Promise<Page<Group>>;
}

export interface User {
  id: Uuid;
  iss: string;
  sub: string;
  email: string | null;
  emailVerified: boolean;
  tenantId: Uuid | null;
  role: Role;
  createdAt: EpochMs;
}

export interface IdentityStore {
  /** The user of (`iss`, `sub`); made with `id` on first sight. A verified email that changed is kept. */
  upsertUser(user: Pick<User, 'id' | 'iss' | 'sub' | 'email' | 'emailVerified' | 'createdAt'>): Promise<User>;
  user(id: Uuid): Promise<User | null>;
  slugTaken(slug: string): Promise<boolean>;
  /** A token's `jti` that was logged out, until a day after it expires. */
  revokeToken(jti: string, expiresAt: EpochMs): Promise<void>;
  /** Those that expire after `now`; 0 for all that are kept. */
  revokedTokens(now: EpochMs): Promise<{ jti: string; expiresAt: EpochMs }[]>;
  /** The digest of a token that was presented at `/mcp`, until a day after the token expires. */
  markAgentToken(digest: string, expiresAt: EpochMs): Promise<void>;
  agentTokens(now: EpochMs): Promise<{ digest: string; expiresAt: EpochMs }[]>;
}

export interface Store extends SizeReporter {
  actors: ActorStore;
  devices: DeviceStore;
  commands: CommandStore;
  plans: PlanStore;
  proposals: ProposalStore;
  records: RecordStore;
  identity: IdentityStore;
  keys: ApiKeyStore;
  members: MemberStore;
  idempotency: IdempotencyStore;
  administration: AdministrationStore;
  firmware: FirmwareStore;
  audit: AuditStore;
  inspection: InspectionStore;
  memories: AgentMemoryStore;
  retention: RetentionStore;
  sessionTokens: SessionTokenStore;
  /** PostgreSQL: 2 turns may be in flight; PGlite: 1. */
  batchesInFlight: number;
  /** Statements that are prepared on the connections of the database. */
  preparedStatements(): number;
  /** Answers within `timeoutMs` or throws. */
  ping(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
}

/** Shared, short-lived things; losing them loses no state. Memory or Redis. */
export interface Cache extends SizeReporter {
  get(key: string): Promise<string | null>;
  /** `ttlMs` milliseconds of life. */
  set(key: string, value: string, ttlMs: number): Promise<void>;
  /** Sets only where there is none; false where there was one. */
  add(key: string, value: string, ttlMs: number): Promise<boolean>;
  /** Reads and removes in one step. */
  take(key: string): Promise<string | null>;
  delete(key: string): Promise<void>;
  /** Tells every process of this deployment, this one too. */
  publish(channel: string, message: string): Promise<void>;
  subscribe(channel: string, listener: (message: string) => void): Promise<() => Promise<void>>;
  /** False while Redis is away and the in-process fallback answers. */
  healthy(): boolean;
  close(): Promise<void>;
}

export type { Lease } from '../domain/lease.ts';
export { type ActiveLock, OwnedByAnother, type RenewalSample } from './contract/active-lock.ts';
export type { JournalEntry, StoredActor, TimerRow } from './contract/actor-rows.ts';
export type { ApiKey, Invitation, Member } from './contract/members.ts';
export type { ApiKeyStore, Capability, IdempotencyRow, IdempotencyStore, Manifest, MemberStore, Page, Position };
