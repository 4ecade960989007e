import type { BoundSubject, CaRegistration, DeviceCa, DeviceCertificate } from '../../domain/device-ca.ts';
import type { EpochMs, Uuid } from '../../domain/values.ts';
import type { CaInsertion, CaRenewal, DeviceCaStore } from '../contract/device-cas.ts';
import { countRows } from './count-rows.ts';
import type { Database } from './database.ts';
import { idempotencyCte, idempotencyParameter, idempotentScope } from './idempotency.ts';

interface CaRow extends Pick<DeviceCa, 'id' | 'name' | 'status' | 'certificate' | 'fingerprint' | 'subject'> {
  tenant_id: Uuid;
  subject_hash: string;
  public_key_hash: string;
  not_after: EpochMs;
  registration: CaRegistration | null;
  created_by: Uuid;
  created_at: EpochMs;
}

interface SubjectRow {
  ca_id: Uuid;
  common_name: string;
  tenant_id: Uuid;
  device_id: Uuid;
  bound_by: Uuid | null;
  bound_at: EpochMs;
}

interface CertificateRow {
  ca_id: Uuid;
  serial_number: string;
  tenant_id: Uuid;
  device_id: Uuid | null;
  common_name: string | null;
  fingerprint: string | null;
  not_after: EpochMs | null;
  first_used_at: EpochMs | null;
  revoked_at: EpochMs | null;
  revoked_by: Uuid | null;
  reason: string | null;
}

const caColumns = `id, tenant_id, name, status, certificate, fingerprint, subject_hash, public_key_hash, subject, not_after,
  registration, created_by, created_at`;
const subjectColumns = 'ca_id, common_name, tenant_id, device_id, bound_by, bound_at';
const certificateColumns = `ca_id, serial_number, tenant_id, device_id, common_name, fingerprint, not_after, first_used_at,
  revoked_at, revoked_by, reason`;

const caOf = ({
  tenant_id,
  subject_hash,
  public_key_hash,
  not_after,
  created_by,
  created_at,
  ...rest
}: CaRow): DeviceCa => ({
  ...rest,
  ...{ tenantId: tenant_id, subjectHash: subject_hash, publicKeyHash: public_key_hash },
  ...{ notAfter: not_after, createdBy: created_by, createdAt: created_at },
});

const subjectOf = (row: SubjectRow): BoundSubject => ({
  ...{ caId: row.ca_id, commonName: row.common_name, tenantId: row.tenant_id },
  ...{ deviceId: row.device_id, boundBy: row.bound_by, boundAt: row.bound_at },
});

const certificateOf = (row: CertificateRow): DeviceCertificate => ({
  ...{ caId: row.ca_id, serialNumber: row.serial_number, tenantId: row.tenant_id, deviceId: row.device_id },
  ...{ commonName: row.common_name, fingerprint: row.fingerprint, notAfter: row.not_after },
  ...{ firstUsedAt: row.first_used_at, revokedAt: row.revoked_at, revokedBy: row.revoked_by, reason: row.reason },
});

const json = (registration: CaRegistration | null): string | null =>
  registration === null ? null : JSON.stringify(registration);

export const deviceCaStore = (database: Database): DeviceCaStore => ({
  ...authorities(database),
  ...subjects(database),
  ...certificates(database),
});

type Authorities = Pick<
  DeviceCaStore,
  'beginVerification' | 'insert' | 'renew' | 'list' | 'find' | 'count' | 'bySubject' | 'update' | 'delete'
>;

const authorities = (database: Database): Authorities => ({
  async beginVerification({ tenantId, codeHash, createdBy, expiresAt }, most, now) {
    await database.write({
      name: 'ca_verification_insert',
      scope: { tenantId },
      text: `with others as (
          select code_hash, expires_at, row_number() over (order by expires_at desc, code_hash collate "C") as n
          from ca_verifications where tenant_id = $1 and code_hash <> $2),
        dropped as (
          delete from ca_verifications v using others
          where v.tenant_id = $1 and v.code_hash = others.code_hash and (others.expires_at <= $5 or others.n >= $6::bigint))
        insert into ca_verifications (tenant_id, code_hash, created_by, expires_at)
        values ($1::uuid, $2, $3::uuid, $4::bigint)
        on conflict (tenant_id, code_hash) do update
          set created_by = excluded.created_by, expires_at = excluded.expires_at`,
      values: [tenantId, codeHash, createdBy, expiresAt, now, most],
    });
  },

  async insert(ca, { codeHash, now, mostOfSubject }, idempotency) {
    const rows = await database.write<{ outcome: CaInsertion }>({
      name: 'device_ca_insert',
      text: `with same as (select count(*) < $16::bigint as fits from device_cas
          where tenant_id = $2 and subject_hash = $7),
        used as (
          delete from ca_verifications where tenant_id = $2 and code_hash = $14 and (select fits from same)
          returning expires_at),
        made as (
          insert into device_cas (${caColumns})
          select $1::uuid, $2::uuid, $3, $4, $5, $6, $7, $8, $9, $10::bigint, $11::jsonb, $12::uuid, $13::bigint
          from used where expires_at > $15::bigint
          on conflict do nothing returning id),
        ${idempotencyCte(17, 'made')}
        select case when not (select fits from same) then 'same_subject'
            when not exists (select from used where expires_at > $15::bigint) then 'no_code'
            when exists (select from made) then 'inserted' else 'taken' end as outcome`,
      values: [
        ...[ca.id, ca.tenantId, ca.name, ca.status, ca.certificate, ca.fingerprint, ca.subjectHash, ca.publicKeyHash],
        ...[ca.subject, ca.notAfter, json(ca.registration), ca.createdBy, ca.createdAt],
        ...[codeHash, now, mostOfSubject, idempotencyParameter(idempotency)],
      ],
    });
    return rows[0]?.outcome ?? 'no_code';
  },

  async renew({ tenantId, id, subjectHash, certificate, fingerprint, notAfter }, { codeHash, now }, idempotency) {
    const rows = await database.write<{ outcome: CaRenewal }>({
      name: 'device_ca_renew',
      scope: idempotentScope(tenantId, idempotency),
      text: `with used as (
          delete from ca_verifications where tenant_id = $1 and code_hash = $7 returning expires_at),
        made as (
          update device_cas set certificate = $4, fingerprint = $5, not_after = $6::bigint
          where tenant_id = $1 and id = $2 and subject_hash = $3 and exists (select from used where expires_at > $8::bigint)
          returning id),
        ${idempotencyCte(9, 'made')}
        select case when exists (select from made) then 'renewed'
            when exists (select from used where expires_at > $8::bigint) then 'unknown' else 'no_code' end as outcome`,
      values: [
        ...[tenantId, id, subjectHash, certificate, fingerprint, notAfter, codeHash, now],
        idempotencyParameter(idempotency),
      ],
    });
    return rows[0]?.outcome ?? 'no_code';
  },

  async list(tenantId) {
    const rows = await database.read<CaRow>({
      name: 'device_cas_list',
      scope: { tenantId },
      text: `select ${caColumns} from device_cas where tenant_id = $1 order by created_at, id`,
      values: [tenantId],
    });
    return rows.map(caOf);
  },

  async find(tenantId, id) {
    const rows = await database.read<CaRow>({
      name: 'device_ca',
      scope: { tenantId },
      text: `select ${caColumns} from device_cas where tenant_id = $1 and id = $2`,
      values: [tenantId, id],
    });
    return rows[0] === undefined ? null : caOf(rows[0]);
  },

  count: (tenantId) => countRows(database, 'device_cas_count', 'device_cas where tenant_id = $1', [tenantId], tenantId),

  async bySubject(subjectHash, { tenantId, most }) {
    const rows = await database.read<CaRow>({
      name: 'device_cas_by_subject',
      text: `select ${caColumns} from device_cas where subject_hash = $1 and ($2::uuid is null or tenant_id = $2)
        order by created_at, id limit $3`,
      values: [subjectHash, tenantId, most],
    });
    return rows.map(caOf);
  },

  async update({ tenantId, id, name, status, registration }) {
    const rows = await database.write({
      name: 'device_ca_update',
      scope: { tenantId },
      text: `update device_cas set name = $3, status = $4, registration = $5::jsonb
        where tenant_id = $1 and id = $2 returning id`,
      values: [tenantId, id, name, status, json(registration)],
    });
    return rows.length > 0;
  },

  async delete(tenantId, id, at) {
    const rows = await database.write({
      name: 'device_ca_delete',
      scope: { tenantId },
      text: `with gone as (delete from device_cas where tenant_id = $1 and id = $2 returning id, tenant_id)
        insert into deleted_cas (id, tenant_id, deleted_at) select id, tenant_id, $3::bigint from gone
        on conflict (id) do update set deleted_at = excluded.deleted_at returning id`,
      values: [tenantId, id, at],
    });
    return rows.length > 0;
  },
});

type Subjects = Pick<
  DeviceCaStore,
  'subject' | 'bind' | 'unbind' | 'isUnbound' | 'countRegistered' | 'countDevices' | 'subjectsOf'
>;

const subjects = (database: Database): Subjects => ({
  async subject(caId, commonName) {
    const rows = await database.read<SubjectRow>({
      name: 'ca_subject',
      text: `select ${subjectColumns} from ca_subjects where ca_id = $1 and common_name = $2`,
      values: [caId, commonName],
    });
    return rows[0] === undefined ? null : subjectOf(rows[0]);
  },

  async bind({ caId, commonName, tenantId, deviceId, boundBy, boundAt }, replaced) {
    const rows = await database.write({
      name: 'ca_subject_bind',
      scope: { tenantId },
      text: `with bound as (
          insert into ca_subjects as s (${subjectColumns})
          values ($1::uuid, $2, $3::uuid, $4::uuid, $5::uuid, $6::bigint)
          on conflict (ca_id, common_name) do update
            set device_id = excluded.device_id, bound_by = excluded.bound_by, bound_at = excluded.bound_at
            where s.device_id = $7::uuid
          returning ca_id),
        again as (
          delete from unbound_subjects where ca_id = $1 and common_name = $2 and exists (select from bound))
        select ca_id from bound`,
      values: [caId, commonName, tenantId, deviceId, boundBy, boundAt, replaced],
    });
    return rows.length > 0;
  },

  async unbind({ caId, commonName, tenantId, deviceId, unboundBy, unboundAt }, since) {
    const rows = await database.write({
      name: 'ca_subject_unbind',
      scope: { tenantId },
      text: `with gone as (
          delete from ca_subjects where ca_id = $1 and common_name = $2 and tenant_id = $3 and device_id = $4
          returning ca_id),
        unused as (
          delete from device_certificates where ca_id = $1 and common_name = $2 and device_id = $4
            and revoked_at is null and first_used_at > $7::bigint and exists (select from gone))
        insert into unbound_subjects (ca_id, common_name, tenant_id, unbound_by, unbound_at)
        select $1::uuid, $2, $3::uuid, $5::uuid, $6::bigint from gone
        on conflict (ca_id, common_name) do update
          set unbound_by = excluded.unbound_by, unbound_at = excluded.unbound_at
        returning ca_id`,
      values: [caId, commonName, tenantId, deviceId, unboundBy, unboundAt, since],
    });
    return rows.length > 0;
  },

  async isUnbound(caId, commonName) {
    const rows = await database.read({
      name: 'ca_subject_unbound',
      text: 'select ca_id from unbound_subjects where ca_id = $1 and common_name = $2',
      values: [caId, commonName],
    });
    return rows.length > 0;
  },

  countRegistered: (caId) =>
    countRows(database, 'ca_subjects_count', 'ca_subjects where ca_id = $1 and bound_by is null', [caId]),

  countDevices: (caId) =>
    countRows(database, 'ca_devices_count', '(select distinct device_id from ca_subjects where ca_id = $1) as d', [
      caId,
    ]),

  async subjectsOf(deviceId) {
    const rows = await database.read<SubjectRow>({
      name: 'ca_subjects_of',
      text: `select ${subjectColumns} from ca_subjects where device_id = $1
        order by bound_at, ca_id, common_name collate "C"`,
      values: [deviceId],
    });
    return rows.map(subjectOf);
  },
});

type Certificates = Pick<
  DeviceCaStore,
  'certificate' | 'recordCertificate' | 'certificatesOf' | 'revoke' | 'isInForce'
>;

async function findCertificate(
  database: Database,
  caId: Uuid,
  serialNumber: string,
): Promise<DeviceCertificate | null> {
  const rows = await database.read<CertificateRow>({
    name: 'device_certificate',
    text: `select ${certificateColumns} from device_certificates where ca_id = $1 and serial_number = $2`,
    values: [caId, serialNumber],
  });
  return rows[0] === undefined ? null : certificateOf(rows[0]);
}

const certificates = (database: Database): Certificates => ({
  certificate: (caId, serialNumber) => findCertificate(database, caId, serialNumber),

  async recordCertificate(used, at, { since, most }) {
    const { caId, serialNumber, tenantId, deviceId, commonName, fingerprint, notAfter } = used;
    const known = await findCertificate(database, caId, serialNumber);
    if (known !== null && known.deviceId !== null) return known;
    const rows = await database.write<CertificateRow>({
      name: 'device_certificate_use',
      scope: { tenantId },
      text: `with old as (
          delete from device_certificates where (ca_id, serial_number) in (
            select ca_id, serial_number from device_certificates
            where device_id = $4 and revoked_at is null and first_used_at > $9
            order by first_used_at desc, ca_id, serial_number collate "C" offset $10))
        insert into device_certificates as c (ca_id, serial_number, tenant_id, device_id, common_name, fingerprint,
          not_after, first_used_at)
        values ($1::uuid, $2, $3::uuid, $4::uuid, $5, $6, $7::bigint, $8::bigint)
        on conflict (ca_id, serial_number) do update set device_id = excluded.device_id,
          common_name = excluded.common_name, fingerprint = excluded.fingerprint, not_after = excluded.not_after,
          first_used_at = excluded.first_used_at where c.device_id is null
        returning ${certificateColumns}`,
      values: [caId, serialNumber, tenantId, deviceId, commonName, fingerprint, notAfter, at, since, most - 1],
    });
    // Another sign-in may have stored it meanwhile.
    if (rows[0] !== undefined) return certificateOf(rows[0]);
    const stored = await findCertificate(database, caId, serialNumber);
    if (stored === null) throw new Error('a certificate was deleted while it was stored');
    return stored;
  },

  async certificatesOf(deviceId) {
    const rows = await database.read<CertificateRow>({
      name: 'device_certificates_of',
      text: `select ${certificateColumns} from device_certificates where device_id = $1
        order by first_used_at desc, ca_id, serial_number collate "C"`,
      values: [deviceId],
    });
    return rows.map(certificateOf);
  },

  async revoke({ tenantId, caId, serialNumber, revokedAt, revokedBy, reason }, most) {
    const rows = await database.write<{ outcome: 'revoked' | 'already' | 'full' }>({
      name: 'device_certificate_revoke',
      scope: { tenantId },
      text: `with expired as (
          delete from device_certificates
          where ca_id = $2 and revoked_at is not null and not_after < $4 and serial_number <> $3),
        known as (
          select revoked_at from device_certificates where ca_id = $2 and serial_number = $3),
        room as (
          select count(*) < $7::bigint as fits from device_certificates
          where ca_id = $2 and revoked_at is not null and coalesce(not_after >= $4, true)),
        made as (
          insert into device_certificates as c (ca_id, serial_number, tenant_id, revoked_at, revoked_by, reason)
          select $2::uuid, $3, $1::uuid, $4::bigint, $5::uuid, $6
          where (select fits from room) and not exists (select from known where revoked_at is not null)
          on conflict (ca_id, serial_number) do update set revoked_at = excluded.revoked_at,
            revoked_by = excluded.revoked_by, reason = excluded.reason where c.revoked_at is null
          returning ca_id)
        select case when exists (select from made) then 'revoked'
            when exists (select from known where revoked_at is not null) or (select fits from room) then 'already'
            else 'full' end as outcome`,
      values: [tenantId, caId, serialNumber, revokedAt, revokedBy, reason, most],
    });
    return rows[0]?.outcome ?? 'already';
  },

  async isInForce(caId, serialNumber) {
    const rows = await database.read<{ in_force: boolean }>({
      name: 'device_certificate_in_force',
      text: `select exists (select from device_cas where id = $1 and status = 'active')
        and exists (select from device_certificates c
          join ca_subjects s on s.ca_id = c.ca_id and s.common_name = c.common_name and s.device_id = c.device_id
          where c.ca_id = $1 and c.serial_number = $2 and c.revoked_at is null) as in_force`,
      values: [caId, serialNumber],
    });
    return rows[0]?.in_force === true;
  },
});
