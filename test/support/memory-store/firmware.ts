import { withoutBuild } from '../../../src/domain/firmware.ts';
import type { Uuid } from '../../../src/domain/values.ts';
import type { FirmwareRelease, FirmwareStore } from '../../../src/store/contract/firmware.ts';
import {
  bigint,
  type Column,
  type Columns,
  indexedText,
  integer,
  nullable,
  oneOf,
  references,
  refuse,
  rowOf,
  text,
  uuid,
} from './columns.ts';
import type { Tables } from './database.ts';
import { type OptionalIdempotencyRow, putIdempotency } from './idempotency.ts';
import { newestFirst } from './keyset-pagination.ts';
import type { Session } from './session.ts';

const MAX_ORPHANS = 1_000;

const percent: Column = (value, name) => {
  const input = integer(value, name) as number;
  return input >= 0 && input <= 100 ? input : refuse('23514', `new row violates check constraint: ${name}`);
};

const artifact: Column = (value) => rowOf({ name: uuid, bytes: bigint }, value as object);

const columns: Columns<FirmwareRelease> = {
  ...{ id: uuid, tenantId: uuid, deviceType: indexedText, version: indexedText, notes: nullable(text) },
  ...{ status: oneOf('draft', 'released', 'withdrawn'), rolloutPercent: percent, url: nullable(text) },
  ...{ size: nullable(bigint), signature: nullable(text), signatureKeyId: nullable(text) },
  ...{ checksum: nullable(text), artifact: nullable(artifact), createdAt: bigint, releasedAt: nullable(bigint) },
  releasedBy: nullable(uuid),
};

function checkedRelease(input: FirmwareRelease): FirmwareRelease {
  const given = rowOf(columns, input);
  const row = { ...given, size: given.artifact?.bytes ?? given.size };
  const fetchable = row.checksum !== null && (row.url !== null || row.artifact !== null);
  if (row.status === 'released' && !fetchable) refuse('23514', 'new row violates check constraint "firmware_check1"');
  return row;
}

function putRelease(tables: Tables, row: FirmwareRelease, idempotency: OptionalIdempotencyRow): void {
  tables.firmware.set(row.id, row);
  putIdempotency(tables, idempotency);
  references(row.artifact === null || tables.artifacts.has(row.artifact.name), 'firmware_artifact_fkey');
}

const isSameVersion = (a: FirmwareRelease, b: FirmwareRelease): boolean =>
  a.tenantId === b.tenantId && a.deviceType === b.deviceType && withoutBuild(a.version) === withoutBuild(b.version);

const isUsed = (tables: Tables, name: Uuid): boolean =>
  tables.firmware.first(({ artifact }) => artifact?.name === name) !== undefined;

type Releases = Omit<FirmwareStore, 'beginArtifact' | 'orphanedArtifacts' | 'forgetArtifacts'>;

const releases = (session: Session): Releases => ({
  insert: (release, idempotency) =>
    session.write('firmware.insert', [release, idempotency], (tables, release, idempotency) => {
      const row = checkedRelease(release);
      if (tables.firmware.first((one) => one.id === row.id || isSameVersion(one, row)) !== undefined) return false;
      putRelease(tables, row, idempotency);
      return true;
    }),

  update: (release, idempotency) =>
    session.write('firmware.update', [release, idempotency], (tables, release, idempotency) => {
      const known = tables.firmware.get(release.id);
      if (known?.tenantId !== release.tenantId) return;
      const { deviceType, version, createdAt } = known;
      putRelease(tables, checkedRelease({ ...release, deviceType, version, createdAt }), idempotency);
    }),

  find: (tenantId, id) =>
    session.read('firmware.find', [tenantId, id], (tables, tenantId, id) => {
      const release = tables.firmware.get(id);
      return release?.tenantId === tenantId ? release : null;
    }),

  findInAnyTenant: (id) => session.read('firmware.findAnywhere', [id], (tables, id) => tables.firmware.get(id) ?? null),

  list: (tenantId, filter, limit, after) =>
    session.read('firmware.list', [tenantId, filter, limit, after], (tables, tenantId, filter, limit, after) => {
      const { deviceType, status } = filter;
      const matching = tables.firmware.where(
        (one) =>
          one.tenantId === tenantId &&
          (deviceType === undefined || one.deviceType === deviceType) &&
          (status === undefined || one.status === status),
      );
      return newestFirst(matching, (one) => one, limit, after);
    }),

  released: (tenantId, deviceType) =>
    session.read('firmware.released', [tenantId, deviceType], (tables, tenantId, deviceType) =>
      tables.firmware.where(
        (one) => one.tenantId === tenantId && one.deviceType === deviceType && one.status === 'released',
      ),
    ),

  countReleases: (tenantId) =>
    session.read(
      'firmware.countReleases',
      [tenantId],
      (tables, tenantId) => tables.firmware.where((one) => one.tenantId === tenantId).length,
    ),

  countArtifacts: (tenantId) =>
    session.read('firmware.countArtifacts', [tenantId], (tables, tenantId) => {
      const stored = tables.firmware.where((one) => one.tenantId === tenantId && one.artifact !== null);
      return { count: stored.length, bytes: stored.reduce((sum, { artifact }) => sum + (artifact?.bytes ?? 0), 0) };
    }),
});

export const firmwareStore = (session: Session): FirmwareStore => ({
  ...releases(session),

  beginArtifact: (name, at) =>
    session.write('firmware.beginArtifact', [name, at], (tables, name, at) => {
      const key = uuid(name, 'name') as Uuid;
      if (tables.artifacts.has(key)) refuse('23505', 'duplicate key value violates unique constraint "artifacts_pkey"');
      tables.artifacts.set(key, bigint(at, 'begun_at') as number);
    }),

  orphanedArtifacts: (before) =>
    session.read('firmware.strayArtifacts', [before], (tables, before) =>
      [...tables.artifacts]
        .filter(([name, begunAt]) => begunAt < before && !isUsed(tables, name))
        .map(([name]) => name)
        .sort()
        .slice(0, MAX_ORPHANS),
    ),

  forgetArtifacts: (names) =>
    session.write('firmware.forgetArtifacts', [names], (tables, names) => {
      for (const name of names) {
        if (isUsed(tables, name)) continue;
        tables.artifacts.delete(name);
        tables.artifactContents.delete(name);
      }
    }),
});
