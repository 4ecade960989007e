import type { FirmwareStatus } from '../../domain/firmware.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { IdempotencyRow } from './idempotency.ts';
import type { Page, Position } from './page.ts';

/** A version of a tenant's firmware for one type of device. */
export interface FirmwareRelease {
  id: Uuid;
  tenantId: Uuid;
  deviceType: string;
  /** Semantic version, as it was given. */
  version: string;
  notes: string | null;
  status: FirmwareStatus;
  /** 0–100: to which part of the devices it is offered once released. */
  rolloutPercent: number;
  /** Where others keep it; null for an artifact of ours. */
  url: string | null;
  /** SHA-256, hex; null until there is something to fetch. */
  checksum: string | null;
  /** What was uploaded to us; withdrawn, it is gone. */
  artifact: Artifact | null;
  createdAt: EpochMs;
  /** When it was first released. */
  releasedAt: EpochMs | null;
}

export interface Artifact {
  /** Its name among the files; another one with each upload. */
  name: Uuid;
  bytes: number;
}

export interface FirmwareFilter {
  deviceType?: string;
  status?: FirmwareStatus;
}

export interface FirmwareStore {
  /** False where the tenant has this version for this type of device. Build metadata makes no other version. */
  insert(release: FirmwareRelease, also?: IdempotencyRow | null): Promise<boolean>;
  /** Replaces what can change of it; what it is of (tenant, type, version) cannot. */
  update(release: FirmwareRelease, also?: IdempotencyRow | null): Promise<void>;
  find(tenantId: Uuid, id: Uuid): Promise<FirmwareRelease | null>;
  /** Whoever's it is: for who shows a signed URL. */
  findInAnyTenant(id: Uuid): Promise<FirmwareRelease | null>;
  list(tenantId: Uuid, filter: FirmwareFilter, limit: number, after?: Position): Promise<Page<FirmwareRelease>>;
  /** Every one of the type with status `released`, in any order. */
  released(tenantId: Uuid, deviceType: string): Promise<FirmwareRelease[]>;
  countArtifacts(tenantId: Uuid): Promise<number>;
  /** Remembers a file before it is written, so that no crash leaves one that nobody knows. */
  beginArtifact(name: Uuid, at: EpochMs): Promise<void>;
  /** Files begun before `before` that belong to no release. */
  orphanedArtifacts(before: EpochMs): Promise<Uuid[]>;
  /** After the files are gone. One that belongs to a release stays. */
  forgetArtifacts(names: readonly Uuid[]): Promise<void>;
}
