import type { ChangeRequest } from '../../../src/domain/change-request.ts';
import type { ConnectionEvent } from '../../../src/domain/connection-event.ts';
import type { Dashboard } from '../../../src/domain/dashboard.ts';
import type { BoundSubject, DeviceCa, DeviceCertificate } from '../../../src/domain/device-ca.ts';
import type { Memory } from '../../../src/domain/memory.ts';
import type { Proposal } from '../../../src/domain/proposal.ts';
import type { Telemetry } from '../../../src/domain/telemetry.ts';
import type { EpochMs, JsonObject, Uuid } from '../../../src/domain/values.ts';
import type { AuditRow } from '../../../src/store/contract/audit.ts';
import type { AuditBlock, ChainPlace } from '../../../src/store/contract/audit-chain.ts';
import type { CaVerification, SubjectUnbinding } from '../../../src/store/contract/device-cas.ts';
import type { FirmwareRelease } from '../../../src/store/contract/firmware.ts';
import type { UserSession } from '../../../src/store/contract/user-sessions.ts';
import type {
  AgentToken,
  ApiKey,
  Group,
  Home,
  IdempotencyRow,
  Invitation,
  JournalEntry,
  Manifest,
  PendingOutput,
  Room,
  StoredActor,
  StoredDeviceKey,
  TimerRow,
  User,
} from '../../../src/store/contract.ts';
import type { FirmwareKeyRow } from './firmware-signing.ts';
import type { HistoryPositionRow, MergedSegmentRow, SamplesRow, SegmentRow } from './history.ts';
import { Table, UndoLog } from './table.ts';

/** An actor's row: its complete context, and the columns that queries need. */
export interface ActorRow extends StoredActor {
  columns: JsonObject;
  /** The part of the context that a commit with an unchanged fixed part keeps. */
  fixed?: JsonObject;
}

export interface JournalRow extends JournalEntry {
  tenantId: Uuid;
  position: number;
}

/** `openAt` is the device of a command that was open when the timer was set. */
/** A row without a shard, as a test may insert it, is in shard 0. */
export type StoredTimer = TimerRow & { openAt?: Uuid | null; shard?: number };
type StoredOutput = PendingOutput & { shard?: number };

export type KeyRow = Omit<StoredDeviceKey, 'status'> & { endedAs: 'retired' | 'revoked' | null };

export interface PresenceRow {
  deviceId: Uuid;
  lastSeen: EpochMs;
  battery: number | null;
  telemetry: Telemetry | null;
  refusals: number;
}

const SEQUENCE_LOGGED_AHEAD = 32;

const tables = (undo: UndoLog) => ({
  /** By `kind:id`. */
  actors: new Table<ActorRow>(undo),
  /** By the actor's `kind:id`, oldest first. */
  journal: new Table<readonly JournalRow[]>(undo),
  /** By `kind:id:version:n`. */
  outbox: new Table<StoredOutput>(undo),
  /** By `kind:id:timer`. */
  timers: new Table<StoredTimer>(undo),
  /** By device, in insertion order. */
  deviceKeys: new Table<readonly KeyRow[]>(undo),
  manifests: new Table<Manifest>(undo),
  /** By `tenant/tag/device`. */
  deviceTags: new Table<{ tenantId: Uuid; tag: string; deviceId: Uuid }>(undo),
  /** By `device/version`. */
  samples: new Table<SamplesRow>(undo),
  /** By device. */
  historyPositions: new Table<HistoryPositionRow>(undo),
  /** By device, property and day, and version. */
  historyParts: new Table<SegmentRow>(undo),
  /** By device, property and day, as the next one. */
  historySegments: new Table<MergedSegmentRow>(undo),
  historyRollups: new Table<MergedSegmentRow>(undo),
  presence: new Table<PresenceRow>(undo),
  /** By device, newest first. */
  deviceConnections: new Table<readonly ConnectionEvent[]>(undo),
  /** By principal, method, path and key. */
  idempotency: new Table<IdempotencyRow>(undo),
  users: new Table<User>(undo),
  homes: new Table<Home>(undo),
  rooms: new Table<Room>(undo),
  /** By `tenant/slug`. */
  groups: new Table<Group>(undo),
  flags: new Table<boolean>(undo),
  revokedTokens: new Table<EpochMs>(undo),
  presentedTokens: new Table<Omit<AgentToken, 'digest'>>(undo),
  apiKeys: new Table<ApiKey>(undo),
  invitations: new Table<Invitation>(undo),
  audit: new Table<AuditRow & { position: number }>(undo),
  /** One row, `last`. */
  auditPositions: new Table<number>(undo),
  /** By tenant, or the nil UUID. */
  auditBlocks: new Table<readonly AuditBlock[]>(undo),
  auditHeads: new Table<ChainPlace & { removed: AuditBlock | null }>(undo),
  dashboards: new Table<Dashboard>(undo),
  memories: new Table<Memory>(undo),
  proposals: new Table<Proposal>(undo),
  changeRequests: new Table<ChangeRequest>(undo),
  firmware: new Table<FirmwareRelease>(undo),
  /** By `tenant/hash of the code`. */
  caVerifications: new Table<CaVerification>(undo),
  deviceCas: new Table<DeviceCa>(undo),
  /** By `CA/common name`. */
  caSubjects: new Table<BoundSubject>(undo),
  /** By `CA/common name`. */
  unboundSubjects: new Table<Omit<SubjectUnbinding, 'deviceId'>>(undo),
  deletedCas: new Table<{ tenantId: Uuid; deletedAt: EpochMs }>(undo),
  /** By `CA/serial number`. */
  deviceCertificates: new Table<DeviceCertificate>(undo),
  /** By tenant: whether signatures are required. */
  firmwareSigning: new Table<boolean>(undo),
  /** By `tenant/key id`. */
  firmwareKeys: new Table<FirmwareKeyRow>(undo),
  artifacts: new Table<EpochMs>(undo),
  /** Of complete artifacts. */
  artifactContents: new Table<Uint8Array>(undo),
  /** CONNECT tokens that opened a session, with their timestamps. */
  usedSessionTokens: new Table<EpochMs>(undo),
  /** By token id. */
  userSessions: new Table<UserSession>(undo),
  /** `last` and `expired before`. */
  pruning: new Table<EpochMs>(undo),
});
export type Tables = ReturnType<typeof tables>;

/** All data committed at one moment. */
export interface Snapshot {
  tables: ReadonlyMap<string, ReadonlyMap<string, unknown>>;
  sequence: number;
  epoch: number;
}

/**
 * The committed state of a database, which outlives the stores that are opened on it. Changes are transactions: a
 * change that throws is rolled back.
 */
export class MemoryDatabase {
  readonly #undo = new UndoLog();
  readonly tables: Tables = tables(this.#undo);
  /** Fencing token: statements of sessions with a lower epoch are rejected. */
  epoch = 0;
  /** False: actors need neither UUIDs as ids nor their kind's columns, for machines that exist only in tests. */
  readonly checked: boolean;
  /** A check constraint on actor rows: returns true for rows to reject. */
  refuses: (row: ActorRow) => boolean = () => false;
  #sequence = 0;
  #crashing = false;

  constructor(options: { checked?: boolean } = {}) {
    this.checked = options.checked ?? true;
  }

  transaction<T>(change: (tables: Tables) => T): T {
    return this.#undo.transaction(() => {
      const value = change(this.tables);
      if (this.#crashing) throw new Error('the server crashed before the commit');
      return value;
    });
  }

  /**
   * The server crashes while the transactions of `open` run, and recovers: committed data remains, the rest is rolled
   * back. A sequence continues after the 32 values that PostgreSQL logs in advance (`SEQ_LOG_VALS`).
   */
  crash(open: readonly (() => unknown)[]): void {
    this.#crashing = true;
    for (const effect of open) {
      try {
        effect();
      } catch {
        // Rolled back.
      }
    }
    this.#crashing = false;
    this.#sequence += SEQUENCE_LOGGED_AHEAD;
  }

  /** The next sequence number of the outbox. Like a PostgreSQL sequence it is not rolled back. */
  nextSequence(): number {
    this.#sequence += 1;
    return this.#sequence;
  }

  snapshot(): Snapshot {
    const copies = Object.entries(this.tables).map(([name, table]) => [name, table.snapshot()] as const);
    return {
      tables: new Map<string, ReadonlyMap<string, unknown>>(copies),
      sequence: this.#sequence,
      epoch: this.epoch,
    };
  }

  restore({ tables: copies, sequence, epoch }: Snapshot): void {
    for (const [name, table] of Object.entries(this.tables) as [string, Table<unknown>][]) {
      table.restore(copies.get(name) ?? new Map());
    }
    this.#sequence = sequence;
    this.epoch = epoch;
  }
}

export const actorKey = ({ kind, id }: { kind: string; id: string }): string => `${kind}:${id}`;
