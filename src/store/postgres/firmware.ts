import type { FirmwareStatus } from '../../domain/firmware.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { FirmwareRelease, FirmwareStore } from '../contract/firmware.ts';
import { type Database, idArray } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';
import { descendingStart, type ListStatement, readPage } from './keyset-pagination.ts';

interface Row {
  id: Uuid;
  tenant_id: Uuid;
  device_type: string;
  version: string;
  notes: string | null;
  status: FirmwareStatus;
  rollout_percent: number;
  url: string | null;
  checksum: string | null;
  size: number | null;
  signature: string | null;
  signature_key_id: string | null;
  artifact: Uuid | null;
  artifact_bytes: number | null;
  created_at: EpochMs;
  released_at: EpochMs | null;
  released_by: Uuid | null;
}

const columns = `id, tenant_id, device_type, version, notes, status, rollout_percent, url, checksum, artifact,
  artifact_bytes, created_at, released_at, size, signature, signature_key_id, released_by`;

const releaseOf = (row: Row): FirmwareRelease => ({
  id: row.id,
  tenantId: row.tenant_id,
  deviceType: row.device_type,
  version: row.version,
  notes: row.notes,
  status: row.status,
  rolloutPercent: row.rollout_percent,
  url: row.url,
  checksum: row.checksum,
  // A build that does not know the column may have replaced the artifact.
  size: row.artifact_bytes ?? row.size,
  signature: row.signature,
  signatureKeyId: row.signature_key_id,
  artifact: row.artifact === null ? null : { name: row.artifact, bytes: row.artifact_bytes ?? 0 },
  createdAt: row.created_at,
  releasedAt: row.released_at,
  releasedBy: row.released_by,
});

export const firmwareStore = (database: Database): FirmwareStore => ({
  async insert(release, idempotency) {
    const { artifact } = release;
    const rows = await database.write({
      name: 'firmware_insert',
      scope: idempotentScope(release.tenantId, idempotency),
      text: `with made as (insert into firmware (${columns})
          values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
          on conflict do nothing returning id), ${idempotencyCte(18, 'made')}
        select id from made`,
      values: [
        ...[release.id, release.tenantId, release.deviceType, release.version, release.notes, release.status],
        ...[release.rolloutPercent, release.url, release.checksum, artifact?.name ?? null, artifact?.bytes ?? null],
        ...[release.createdAt, release.releasedAt, release.size, release.signature, release.signatureKeyId],
        ...[release.releasedBy, idempotencyParameter(idempotency)],
      ],
    });
    return rows.length > 0;
  },

  async update(release, idempotency) {
    const { artifact } = release;
    await database.write({
      name: 'firmware_update',
      scope: idempotentScope(release.tenantId, idempotency),
      text: `with made as (update firmware set notes = $3, status = $4, rollout_percent = $5, url = $6, checksum = $7,
            artifact = $8, artifact_bytes = $9, released_at = $10, size = $11, signature = $12, signature_key_id = $13,
            released_by = $14
          where id = $1 and tenant_id = $2 returning id), ${idempotencyCte(15, 'made')}
        select id from made`,
      values: [
        ...[release.id, release.tenantId, release.notes, release.status, release.rolloutPercent, release.url],
        ...[release.checksum, artifact?.name ?? null, artifact?.bytes ?? null, release.releasedAt, release.size],
        ...[release.signature, release.signatureKeyId, release.releasedBy, idempotencyParameter(idempotency)],
      ],
    });
  },

  async find(tenantId, id) {
    const [row] = await database.read<Row>({
      name: 'firmware',
      scope: { tenantId },
      text: `select ${columns} from firmware where id = $1 and tenant_id = $2`,
      values: [id, tenantId],
    });
    return row ? releaseOf(row) : null;
  },

  async findInAnyTenant(id) {
    const [row] = await database.read<Row>({
      name: 'firmware_anywhere',
      text: `select ${columns} from firmware where id = $1`,
      values: [id],
    });
    return row ? releaseOf(row) : null;
  },

  async list(tenantId, { deviceType, status }, limit, after) {
    const statement: ListStatement = {
      name: 'firmware_list',
      scope: { tenantId },
      text: `select ${columns} from firmware where tenant_id = $1 and (created_at, id) < ($2, $3)
          and ($4::text is null or device_type = $4) and ($5::text is null or status = $5)
        order by created_at desc, id desc limit $6`,
      values: (after, rows) => [tenantId, ...descendingStart(after), deviceType ?? null, status ?? null, rows],
    };
    const position = ({ createdAt, id }: FirmwareRelease) => ({ createdAt, id });
    return readPage(database, statement, { after, limit, of: releaseOf, position });
  },

  async released(tenantId, deviceType) {
    const rows = await database.read<Row>({
      name: 'firmware_released',
      scope: { tenantId },
      text: `select ${columns} from firmware where tenant_id = $1 and device_type = $2 and status = 'released'`,
      values: [tenantId, deviceType],
    });
    return rows.map(releaseOf);
  },

  async countReleases(tenantId) {
    const [row] = await database.read<{ count: number }>({
      name: 'firmware_count',
      text: 'select count(*)::integer as count from firmware where tenant_id = $1',
      values: [tenantId],
    });
    return row?.count ?? 0;
  },

  async countArtifacts(tenantId) {
    const [row] = await database.read<{ count: number; bytes: number }>({
      name: 'firmware_artifacts',
      scope: { tenantId },
      text: `select count(*)::integer as count, coalesce(sum(artifact_bytes), 0)::bigint as bytes
        from firmware where tenant_id = $1 and artifact is not null`,
      values: [tenantId],
    });
    return row ?? { count: 0, bytes: 0 };
  },

  async beginArtifact(name, at) {
    await database.write({
      name: 'artifact_begin',
      text: 'insert into artifacts (name, begun_at) values ($1, $2)',
      values: [name, at],
    });
  },

  async orphanedArtifacts(before) {
    const rows = await database.read<{ name: Uuid }>({
      name: 'artifacts_stray',
      text: `select name from artifacts a where begun_at < $1
          and not exists (select from firmware f where f.artifact = a.name)
        order by name limit 1000`,
      values: [before],
    });
    return rows.map(({ name }) => name);
  },

  async forgetArtifacts(names) {
    await database.write({
      name: 'artifacts_forget',
      text: `delete from artifacts a where name = any($1::uuid[])
        and not exists (select from firmware f where f.artifact = a.name)`,
      values: [idArray(names)],
    });
  },
});
