import type { Position } from '../../domain/cursor.ts';
import type { FirmwareStatus } from '../../domain/firmware.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page } from './page.ts';

/** A firmware version of a tenant for one device type. */
export interface FirmwareRelease {
  id: Uuid;
  tenantId: Uuid;
  deviceType: string;
  /** Semantic version, as it was submitted. */
  version: string;
  notes: string | null;
  status: FirmwareStatus;
  /** 0–100: percentage of the devices that a released version is offered to. */
  rolloutPercent: number;
  /** External URL; null for an uploaded artifact. */
  url: string | null;
  /** SHA-256, hex; null until there is an artifact or URL. */
  checksum: string | null;
  /** Bytes of the file, if known: of an uploaded artifact, or as submitted with `url`. */
  size: number | null;
  /** Ed25519, base64url, over the text of protocol/firmware-signature.ts; verified when the draft is released. */
  signature: string | null;
  /** The key that verified `signature`; null for a draft. */
  signatureKeyId: string | null;
  /** The uploaded file; null after a withdrawal. */
  artifact: Artifact | null;
  createdAt: EpochMs;
  /** Time of the first release. */
  releasedAt: EpochMs | null;
  /** The user that released it first; null for a draft, and for releases of earlier versions of the service. */
  releasedBy: Uuid | null;
}

export interface Artifact {
  /** File name; each upload has a new one. */
  name: Uuid;
  bytes: number;
}

export interface FirmwareFilter {
  deviceType?: string;
  status?: FirmwareStatus;
}

export interface FirmwareStore {
  /**
   * False if the tenant already has this version for this device type. Build metadata does not make a version
   * different.
   */
  insert(release: FirmwareRelease, idempotency?: IdempotencyRow | null): Promise<boolean>;
  /** Replaces the mutable fields; tenant, device type and version are immutable. */
  update(release: FirmwareRelease, idempotency?: IdempotencyRow | null): Promise<void>;
  find(tenantId: Uuid, id: Uuid): Promise<FirmwareRelease | null>;
  /** Without a check of the tenant: for callers with a signed URL. */
  findInAnyTenant(id: Uuid): Promise<FirmwareRelease | null>;
  list(tenantId: Uuid, filter: FirmwareFilter, limit: number, after?: Position): Promise<Page<FirmwareRelease>>;
  /** All versions of the type with status `released`, in any order. */
  released(tenantId: Uuid, deviceType: string): Promise<FirmwareRelease[]>;
  /** Of every status: drafts and withdrawn ones too. */
  countReleases(tenantId: Uuid): Promise<number>;
  countArtifacts(tenantId: Uuid): Promise<{ count: number; bytes: number }>;
  /** Registers a file before it is written, so that a crash leaves no unregistered file. */
  beginArtifact(name: Uuid, at: EpochMs): Promise<void>;
  /** Files registered before `before` that belong to no release. */
  orphanedArtifacts(before: EpochMs): Promise<Uuid[]>;
  /** Removes the registration of deleted files. A file that belongs to a release stays registered. */
  forgetArtifacts(names: readonly Uuid[]): Promise<void>;
}
