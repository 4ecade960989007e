import type { SizeReporter } from '../domain/collection-sizes.ts';
import type { ActorStore } from './contract/actor-store.ts';
import type { AdministrationStore } from './contract/administration.ts';
import type { ArtifactFiles } from './contract/artifact-files.ts';
import type { AuditStore } from './contract/audit.ts';
import type { AuditChainStore } from './contract/audit-chain.ts';
import type { ChangeRequestStore } from './contract/change-requests.ts';
import type { CommandStore } from './contract/commands.ts';
import type { DashboardStore } from './contract/dashboards.ts';
import type { DeviceCaStore } from './contract/device-cas.ts';
import type { DeviceStore } from './contract/devices.ts';
import type { FirmwareStore } from './contract/firmware.ts';
import type { FirmwareSigningStore } from './contract/firmware-signing.ts';
import type { HistoryStore } from './contract/history.ts';
import type { IdempotencyStore } from './contract/idempotency.ts';
import type { IdentityStore } from './contract/identity.ts';
import type { InspectionStore } from './contract/inspection.ts';
import type { ApiKeyStore, MemberStore } from './contract/members.ts';
import type { AgentMemoryStore } from './contract/memories.ts';
import type { PlanStore } from './contract/plans.ts';
import type { ProposalStore } from './contract/proposals.ts';
import type { RecordStore } from './contract/records.ts';
import type { RetentionStore } from './contract/retention.ts';
import type { SealedValueStore } from './contract/sealed-values.ts';
import type { SessionTokenStore } from './contract/session-tokens.ts';
import type { TimelineStore } from './contract/timeline.ts';
import type { UserSessionStore } from './contract/user-sessions.ts';

/*
 * The store's contract with the rest of the service: domain operations and batches, no SQL. PostgreSQL and PGlite
 * implement it with one schema. Every method may throw a `StoreFault`; a value that was returned is durable.
 */

export interface Store extends SizeReporter {
  actors: ActorStore;
  devices: DeviceStore;
  deviceCas: DeviceCaStore;
  commands: CommandStore;
  plans: PlanStore;
  proposals: ProposalStore;
  changeRequests: ChangeRequestStore;
  records: RecordStore;
  identity: IdentityStore;
  keys: ApiKeyStore;
  members: MemberStore;
  idempotency: IdempotencyStore;
  administration: AdministrationStore;
  dashboards: DashboardStore;
  firmware: FirmwareStore;
  firmwareSigning: FirmwareSigningStore;
  /** Artifacts in the database; a deployment may store them in a folder instead. */
  artifactFiles: ArtifactFiles;
  history: HistoryStore;
  audit: AuditStore;
  auditChain: AuditChainStore;
  inspection: InspectionStore;
  memories: AgentMemoryStore;
  retention: RetentionStore;
  sealedValues: SealedValueStore;
  sessionTokens: SessionTokenStore;
  timeline: TimelineStore;
  userSessions: UserSessionStore;
  /** Batches that may be in flight at once: 2 with PostgreSQL, 1 with PGlite. */
  batchesInFlight: number;
  /** Number of statements prepared on the database's connections. */
  preparedStatements(): number;
  /** Resolves when the database answers within `timeoutMs`, otherwise rejects. */
  ping(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
}

export type { Position } from '../domain/cursor.ts';
export type { Lease } from '../domain/lease.ts';
export type { Capability, Manifest } from '../domain/manifest.ts';
export { type ActiveLock, OwnedByAnother, type RenewalSample } from './contract/active-lock.ts';
export type { JournalEntry, StoredActor, TimerRow } from './contract/actor-rows.ts';
export type {
  ActorCommit,
  ActorStore,
  CommitOptions,
  OutboxKey,
  OutboxRow,
  PendingOutput,
  UnhandledTimer,
} from './contract/actor-store.ts';
export type { Cache } from './contract/cache.ts';
export type { CommandStore } from './contract/commands.ts';
export type { DeviceFilter, DeviceRow, DeviceStore, PresenceFlush, StoredDeviceKey } from './contract/devices.ts';
export {
  CALLER_TIMEOUT_MS,
  CommitUnknown,
  DataRefused,
  DEVICE_TIMEOUT_MS,
  IdempotencyConflict,
  StoreUnavailable,
} from './contract/faults.ts';
export { DROPPED_ANSWER, type IdempotencyRow, type IdempotencyStore, SEALED_HASH } from './contract/idempotency.ts';
export type { AgentToken, IdentityStore, User } from './contract/identity.ts';
export type { ApiKey, ApiKeyStore, Invitation, Member, MemberStore } from './contract/members.ts';
export type { Page } from './contract/page.ts';
export type { PlanStore } from './contract/plans.ts';
export type { Group, Home, RecordStore, Room } from './contract/records.ts';
