import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { Position } from '../domain/cursor.ts';
import type { Capability, Manifest } from '../domain/manifest.ts';
import type { Role } from '../domain/roles.ts';
import type { OwnedShards } from '../domain/shards.ts';
import type { EpochMs, Json, JsonObject, Uuid } from '../domain/values.ts';
import type { ActorKind, ActorRef, DeviceKeyRow, DurableOutput, RowOutput } from '../machines/outputs.ts';
import type { JournalEntry, StoredActor, TimerRow } from './contract/actor-rows.ts';
import type { AdministrationStore } from './contract/administration.ts';
import type { ArtifactFiles } from './contract/artifact-files.ts';
import type { AuditStore } from './contract/audit.ts';
import type { FirmwareStore } from './contract/firmware.ts';
import type { IdempotencyRow, IdempotencyStore } from './contract/idempotency.ts';
import type { InspectionStore } from './contract/inspection.ts';
import type { ApiKeyStore, MemberStore } from './contract/members.ts';
import type { AgentMemoryStore } from './contract/memories.ts';
import type { Page } from './contract/page.ts';
import type { ProposalStore } from './contract/proposals.ts';
import type { RetentionStore } from './contract/retention.ts';
import type { SessionTokenStore } from './contract/session-tokens.ts';

/*
 * The store's contract with the rest of the service: domain operations and batches, no SQL. PostgreSQL and PGlite
 * implement it with one schema. Every method may throw a `StoreFault`; a value that was returned is durable.
 */

/** How long callers and devices wait for a store that does not answer. */
export const CALLER_TIMEOUT_MS = 2_000;
export const DEVICE_TIMEOUT_MS = 10_000;

/** The store did not apply the operation; it can be retried. */
export class StoreUnavailable extends Error {
  override name = 'StoreUnavailable';
}

/** The connection was lost during COMMIT: the batch may or may not have been committed. */
export class CommitUnknown extends Error {
  override name = 'CommitUnknown';
  /** Resolves when a commit that is still in flight has ended; null if no attempt is left. Never rejects. */
  readonly ended: Promise<void> | null;
  constructor(message: string, { ended = null, ...options }: ErrorOptions & { ended?: Promise<void> | null } = {}) {
    super(message, options);
    this.ended = ended;
  }
}

/** The database rejected the data (SQLSTATE class 21, 22, 23 or 54); nothing of the batch was stored. */
export class DataRefused extends Error {
  override name = 'DataRefused';
  readonly sqlState: string;
  constructor(sqlState: string, message: string) {
    super(message);
    this.sqlState = sqlState;
  }
}

/**
 * The `Idempotency-Key` of a write has a row that did not exist when the request began: another attempt wrote it.
 * Nothing of the batch was stored; return the stored response.
 */
export class IdempotencyConflict extends DataRefused {
  override name = 'IdempotencyConflict';
}

/** An output that must be delivered, numbered so that a duplicate is recognised. */
export interface OutboxRow {
  from: ActorRef;
  version: number;
  n: number;
  output: DurableOutput;
}
export type OutboxKey = Pick<OutboxRow, 'from' | 'version' | 'n'>;

/** An output that was committed but not yet delivered. */
export interface PendingOutput extends OutboxRow {
  /** Position in insertion order, from 1. */
  seq: number;
}

/** One actor's changes in a batch. Stored as a whole, or not at all if the row's version is no longer `readVersion`. */
export interface ActorCommit {
  ref: ActorRef;
  tenantId: Uuid;
  /** The version that the decision was based on; 0 inserts the row. */
  readVersion: number;
  version: number;
  machineVersion: number;
  value: Json;
  /**
   * The context in two parts with different members. Most transitions change `live` alone, so the two are stored
   * separately, and `fixed` is not rewritten each time.
   */
  fixed: JsonObject;
  live: JsonObject;
  /** The row already has this `fixed`, and the columns derived from it. */
  fixedUnchanged: boolean;
  /** Columns of the actor's kind: see `machines/actor-columns.ts`. */
  columns: JsonObject;
  since: EpochMs;
  journal: JournalEntry[];
  outbox: { n: number; output: DurableOutput }[];
  timers: { set: TimerRow[]; clear: string[] };
  rows: RowOutput[];
  idempotency: IdempotencyRow | null;
  /** Outbox rows that this transition handles: deleted with it, kept when it conflicts. */
  delivered: OutboxKey[];
}

export interface CommitOptions {
  /** Outbox rows that caused no transition: deleted in the same statement. */
  delivered?: readonly OutboxKey[];
  /** All or nothing: on a version conflict of one actor nothing is stored, and all actors are returned as conflicts. */
  atomic?: boolean;
}

/** A timer whose actor no longer handles its event. */
export interface UnhandledTimer extends Pick<TimerRow, 'ref' | 'id'> {
  /** Version of the actor that did not handle the event. */
  version: number;
}

export interface ActorStore {
  /** The existing actors of `ids`; deleted devices are left out. */
  load(kind: ActorKind, ids: readonly Uuid[]): Promise<StoredActor[]>;
  /** One statement. `lost` are the actors with a version conflict; nothing of them was stored. */
  commit(commits: readonly ActorCommit[], options?: CommitOptions): Promise<{ lost: ActorRef[] }>;
  quarantine(ref: ActorRef, reason: string | null): Promise<void>;
  /** Timers due at or before `until`, oldest first. Firing does not delete a timer: the transition's commit does. */
  dueTimers(until: EpochMs, limit: number, shards?: OwnedShards): Promise<TimerRow[]>;
  /**
   * Removes timers with an unhandled event, unless they were set again for a time after `dueBy` or their actor has a
   * newer version.
   */
  dropTimers(timers: readonly UnhandledTimer[], dueBy: EpochMs): Promise<void>;
  /** Makes a timer due again at `until`, unless it was set again for a time after `dueBy`. */
  postponeTimer(timer: Pick<TimerRow, 'ref' | 'id'>, dueBy: EpochMs, until: EpochMs): Promise<void>;
  /** Due time of the earliest timer, or null. */
  nextTimerAt(shards?: OwnedShards): Promise<EpochMs | null>;
  /** Undelivered outputs in insertion order, from the one after sequence number `after`. */
  pendingOutbox(limit: number, after: number, shards?: OwnedShards): Promise<PendingOutput[]>;
  journal(ref: ActorRef, limit: number, before?: number): Promise<JournalEntry[]>;
}

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
}

export interface DeviceFilter {
  homeId?: Uuid;
  roomId?: Uuid;
  deviceType?: string;
  online?: boolean;
  revoked?: boolean;
}

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
  /** Number of rejected messages to add to the device's count. */
  refusals?: number;
  /** Key versions that the device signed in with. */
  keys?: readonly { version: number; usedAt: EpochMs }[];
}

export interface DeviceStore {
  list(tenantId: Uuid, filter: DeviceFilter, limit: number, after?: Position): Promise<Page<DeviceRow>>;
  /** Rows of these ids that belong to the tenant, in any order. */
  find(tenantId: Uuid, ids: readonly Uuid[]): Promise<DeviceRow[]>;
  /** Ids of active (not revoked) devices, for room and group commands; `category` narrows. */
  inRoom(tenantId: Uuid, roomId: Uuid, category?: string): Promise<Uuid[]>;
  count(tenantId: Uuid): Promise<number>;
  /** Active devices in the whole service, for `BETA_DEVICE_LIMIT`. */
  countActive(): Promise<number>;
  countActiveInHome(tenantId: Uuid, homeId: Uuid): Promise<number>;
  /** All devices placed in the home or room, including revoked ones. */
  placedIn(tenantId: Uuid, place: { homeId: Uuid } | { roomId: Uuid }): Promise<Uuid[]>;
  /** Batched: the keys that may still verify a signature, for sign-in. */
  validKeys(ids: readonly Uuid[]): Promise<Map<Uuid, StoredDeviceKey[]>>;
  keyHistory(deviceId: Uuid): Promise<StoredDeviceKey[]>;
  manifests(ids: readonly Uuid[]): Promise<Manifest[]>;
  flushPresence(rows: readonly PresenceFlush[]): Promise<void>;
  lastSeen(
    ids: readonly Uuid[],
  ): Promise<Map<Uuid, { lastSeen: EpochMs | null; battery: number | null; refusals: number }>>;
  /** Devices of these shards that are stored as online. */
  online(shards?: OwnedShards): Promise<Uuid[]>;
  /** Full reported states, for the snapshot that opens a WebSocket subscription. */
  states(
    tenantId: Uuid,
    ids?: readonly Uuid[],
  ): Promise<{ deviceId: Uuid; state: JsonObject; stateVersion: number; reportedAt: EpochMs | null }[]>;
}

export interface CommandStore {
  /** History of one device, newest first. */
  list(tenantId: Uuid, deviceId: Uuid, limit: number, after?: Position): Promise<Page<StoredActor>>;
  /** The command that this token confirms: of one device, or of any device if `deviceId` is null. */
  byToken(tenantId: Uuid, deviceId: Uuid | null, tokenHash: string): Promise<{ id: Uuid; deviceId: Uuid } | null>;
  /** The tenant's commands that can still be confirmed at `now`, newest first. */
  awaitingConfirmation(tenantId: Uuid, now: EpochMs, limit: number, after?: Position): Promise<Page<StoredActor>>;
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

/** Plain records. A write takes the idempotency row that is committed with it. */
export interface RecordStore {
  insertHome(home: Home, idempotency?: IdempotencyRow | null): Promise<void>;
  updateHome(tenantId: Uuid, id: Uuid, changes: { name?: string; timezone?: string | null }): Promise<Home | null>;
  /** False if the home does not exist. The caller moves its devices out first. */
  deleteHome(tenantId: Uuid, id: Uuid): Promise<boolean>;
  home(tenantId: Uuid, id: Uuid): Promise<Home | null>;
  homes(tenantId: Uuid, limit: number, after?: Position): Promise<Page<Home>>;
  /** The tenant's homes among these ids, in any order. */
  findHomes(tenantId: Uuid, ids: readonly Uuid[]): Promise<Home[]>;
  insertRoom(room: Room, idempotency?: IdempotencyRow | null): Promise<void>;
  deleteRoom(tenantId: Uuid, homeId: Uuid, id: Uuid): Promise<boolean>;
  room(tenantId: Uuid, id: Uuid): Promise<Room | null>;
  rooms(tenantId: Uuid, homeId: Uuid, limit: number, after?: Position): Promise<Page<Room>>;
  /** The tenant's rooms among these ids, in any order. */
  findRooms(tenantId: Uuid, ids: readonly Uuid[]): Promise<Room[]>;
  /** The newest rooms of each home, newest first. */
  roomsOf(tenantId: Uuid, homeIds: readonly Uuid[], each: number): Promise<Room[]>;
  /** False if the slug is taken. */
  insertGroup(group: Group, idempotency?: IdempotencyRow | null): Promise<boolean>;
  joinGroup(
    tenantId: Uuid,
    slug: string,
    deviceIds: readonly Uuid[],
    idempotency?: IdempotencyRow | null,
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
  /**
   * The user with (`iss`, `sub`); created with `id` at the first sign-in. A changed email is stored if it is verified.
   */
  upsertUser(user: Pick<User, 'id' | 'iss' | 'sub' | 'email' | 'emailVerified' | 'createdAt'>): Promise<User>;
  user(id: Uuid): Promise<User | null>;
  userBySubject(iss: string, sub: string): Promise<User | null>;
  slugTaken(slug: string): Promise<boolean>;
  /** Stores the `jti` of a token that was logged out, until a day after the token expires. */
  revokeToken(jti: string, expiresAt: EpochMs): Promise<void>;
  /** Tokens that expire after `now`; 0 returns all that are stored. */
  revokedTokens(now: EpochMs): Promise<{ jti: string; expiresAt: EpochMs }[]>;
  isTokenRevoked(jti: string): Promise<boolean>;
  /** Stores the digest of a token that was presented at `/mcp`, until a day after the token expires. */
  markAgentToken(digest: string, expiresAt: EpochMs): Promise<void>;
  agentTokens(now: EpochMs): Promise<{ digest: string; expiresAt: EpochMs }[]>;
  isAgentToken(digest: string): Promise<boolean>;
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
  /** Artifacts in the database; a deployment may store them in a folder instead. */
  artifactFiles: ArtifactFiles;
  audit: AuditStore;
  inspection: InspectionStore;
  memories: AgentMemoryStore;
  retention: RetentionStore;
  sessionTokens: SessionTokenStore;
  /** Batches that may be in flight at once: 2 with PostgreSQL, 1 with PGlite. */
  batchesInFlight: number;
  /** Number of statements prepared on the database's connections. */
  preparedStatements(): number;
  /** Resolves when the database answers within `timeoutMs`, otherwise rejects. */
  ping(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
}

/**
 * Short-lived entries, shared by all processes of this deployment; losing them loses no state. In memory, in Redis or in
 * PostgreSQL; the latter throws `StoreUnavailable` or `CommitUnknown` while the database does not answer.
 */
export interface Cache extends SizeReporter {
  get(key: string): Promise<string | null>;
  /** `ttlMs`: time to live in milliseconds. */
  set(key: string, value: string, ttlMs: number): Promise<void>;
  /** Sets the value if the key is free; false if it is not. */
  add(key: string, value: string, ttlMs: number): Promise<boolean>;
  /** Reads and removes atomically. */
  take(key: string): Promise<string | null>;
  delete(key: string): Promise<void>;
  /**
   * Delivers to all processes of this deployment, including this one, through the server: a process that receives its
   * own message has received what was published before it. Rejects if the message may not be delivered.
   */
  publish(channel: string, message: string): Promise<void>;
  /**
   * Returns the function that ends the subscription. `interrupted` is called when the connection is lost: messages
   * until the next connection are lost too.
   */
  subscribe(
    channel: string,
    listener: (message: string) => void,
    interrupted?: () => void,
  ): Promise<() => Promise<void>>;
  /** False while the server is unavailable; Redis is then replaced by the entries of this process. */
  healthy(): boolean;
  close(): Promise<void>;
}

export type { Lease } from '../domain/lease.ts';
export { type ActiveLock, OwnedByAnother, type RenewalSample } from './contract/active-lock.ts';
export type { JournalEntry, StoredActor, TimerRow } from './contract/actor-rows.ts';
export type { ApiKey, Invitation, Member } from './contract/members.ts';
export type { ApiKeyStore, Capability, IdempotencyRow, IdempotencyStore, Manifest, MemberStore, Page, Position };
