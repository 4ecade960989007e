import type { BoundSubject, DeviceCa, DeviceCertificate } from '../../../src/domain/device-ca.ts';
import type { CaVerification, DeviceCaStore, SubjectUnbinding } from '../../../src/store/contract/device-cas.ts';
import { bigint, type Columns, indexedText, jsonb, nullable, oneOf, rowOf, text, uuid } from './columns.ts';
import { putIdempotency } from './idempotency.ts';
import type { Session } from './session.ts';

const verificationColumns: Columns<CaVerification> = {
  ...{ tenantId: uuid, codeHash: indexedText, createdBy: uuid, expiresAt: bigint },
};
const caColumns: Columns<DeviceCa> = {
  ...{ id: uuid, tenantId: uuid, name: text, status: oneOf('active', 'inactive'), certificate: text },
  ...{ fingerprint: text, subjectHash: indexedText, publicKeyHash: indexedText, subject: text, notAfter: bigint },
  ...{ registration: nullable(jsonb), createdBy: uuid, createdAt: bigint },
};
const subjectColumns: Columns<BoundSubject> = {
  ...{ caId: uuid, commonName: indexedText, tenantId: uuid, deviceId: uuid, boundBy: nullable(uuid), boundAt: bigint },
};
const unbindingColumns: Columns<Omit<SubjectUnbinding, 'deviceId'>> = {
  ...{ caId: uuid, commonName: indexedText, tenantId: uuid, unboundBy: uuid, unboundAt: bigint },
};
const certificateColumns: Columns<DeviceCertificate> = {
  ...{ caId: uuid, serialNumber: indexedText, tenantId: uuid, deviceId: nullable(uuid), commonName: nullable(text) },
  ...{ fingerprint: nullable(text), notAfter: nullable(bigint), firstUsedAt: nullable(bigint) },
  ...{ revokedAt: nullable(bigint), revokedBy: nullable(uuid), reason: nullable(text) },
};

const keyOf = (...parts: readonly string[]): string => parts.join('/');
const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const byAge = (a: DeviceCa, b: DeviceCa): number => a.createdAt - b.createdAt || byText(a.id, b.id);
const newestUse = (a: DeviceCertificate, b: DeviceCertificate): number =>
  (b.firstUsedAt ?? 0) - (a.firstUsedAt ?? 0) || byText(a.caId, b.caId) || byText(a.serialNumber, b.serialNumber);

export const deviceCaStore = (session: Session): DeviceCaStore => ({
  beginVerification: (verification, most, now) =>
    session.write('deviceCas.beginVerification', [verification, most, now], (tables, input, most, now) => {
      const row = rowOf(verificationColumns, input);
      const others = tables.caVerifications
        .where((one) => one.tenantId === row.tenantId && one.codeHash !== row.codeHash)
        .sort((a, b) => b.expiresAt - a.expiresAt || byText(a.codeHash, b.codeHash));
      for (const [n, one] of others.entries())
        if (one.expiresAt <= now || n + 1 >= most) tables.caVerifications.delete(keyOf(one.tenantId, one.codeHash));
      tables.caVerifications.set(keyOf(row.tenantId, row.codeHash), row);
    }),

  insert: (ca, code, idempotency) =>
    session.write('deviceCas.insert', [ca, code, idempotency], (tables, input, code, also) => {
      const row = rowOf(caColumns, input);
      const isSame = ({ tenantId, subjectHash }: DeviceCa) =>
        tenantId === row.tenantId && subjectHash === row.subjectHash;
      const same = tables.deviceCas.where(isSame);
      if (same.length >= code.mostOfSubject) return 'same_subject';
      const used = tables.caVerifications.get(keyOf(row.tenantId, code.codeHash));
      tables.caVerifications.delete(keyOf(row.tenantId, code.codeHash));
      if (used === undefined || used.expiresAt <= code.now) return 'no_code';
      const taken = ({ id, publicKeyHash }: DeviceCa) => id === row.id || publicKeyHash === row.publicKeyHash;
      if (tables.deviceCas.where(taken).length > 0) return 'taken';
      tables.deviceCas.set(row.id, row);
      putIdempotency(tables, also);
      return 'inserted';
    }),

  renew: (ca, code, idempotency) =>
    session.write('deviceCas.renew', [ca, code, idempotency], (tables, input, { codeHash, now }, also) => {
      const { id, tenantId, subjectHash, certificate, fingerprint, notAfter } = input;
      const used = tables.caVerifications.get(keyOf(tenantId, codeHash));
      tables.caVerifications.delete(keyOf(tenantId, codeHash));
      if (used === undefined || used.expiresAt <= now) return 'no_code';
      const one = tables.deviceCas.get(id);
      if (one?.tenantId !== tenantId || one.subjectHash !== subjectHash) return 'unknown';
      tables.deviceCas.set(id, rowOf(caColumns, { ...one, certificate, fingerprint, notAfter }));
      putIdempotency(tables, also);
      return 'renewed';
    }),

  list: (tenantId) =>
    session.read('deviceCas.list', [tenantId], (tables, tenantId) =>
      tables.deviceCas.where((one) => one.tenantId === tenantId).sort(byAge),
    ),

  find: (tenantId, id) =>
    session.read('deviceCas.find', [tenantId, id], (tables, tenantId, id) => {
      const one = tables.deviceCas.get(id);
      return one?.tenantId === tenantId ? one : null;
    }),

  count: (tenantId) =>
    session.read(
      'deviceCas.count',
      [tenantId],
      (tables, tenantId) => tables.deviceCas.where((one) => one.tenantId === tenantId).length,
    ),

  bySubject: (subjectHash, of) =>
    session.read('deviceCas.bySubject', [subjectHash, of], (tables, subjectHash, { tenantId, most }) =>
      tables.deviceCas
        .where((one) => one.subjectHash === subjectHash && (tenantId === null || one.tenantId === tenantId))
        .sort(byAge)
        .slice(0, most),
    ),

  update: (ca) =>
    session.write('deviceCas.update', [ca], (tables, input) => {
      const row = rowOf(caColumns, input);
      const one = tables.deviceCas.get(row.id);
      if (one === undefined || one.tenantId !== row.tenantId) return false;
      const { name, status, registration } = row;
      tables.deviceCas.set(row.id, { ...one, name, status, registration });
      return true;
    }),

  delete: (tenantId, id, at) =>
    session.write('deviceCas.delete', [tenantId, id, at], (tables, tenantId, id, at) => {
      if (tables.deviceCas.get(id)?.tenantId !== tenantId) return false;
      tables.deletedCas.set(id, { tenantId: tables.deletedCas.get(id)?.tenantId ?? tenantId, deletedAt: at });
      return tables.deviceCas.delete(id);
    }),

  subject: (caId, commonName) =>
    session.read(
      'deviceCas.subject',
      [caId, commonName],
      (tables, caId, commonName) => tables.caSubjects.get(keyOf(caId, commonName)) ?? null,
    ),

  bind: (subject, replaced) =>
    session.write('deviceCas.bind', [subject, replaced], (tables, input, replaced) => {
      const row = rowOf(subjectColumns, input);
      const key = keyOf(row.caId, row.commonName);
      const bound = tables.caSubjects.get(key);
      if (bound !== undefined && bound.deviceId !== replaced) return false;
      tables.caSubjects.set(key, { ...row, tenantId: bound?.tenantId ?? row.tenantId });
      tables.unboundSubjects.delete(key);
      return true;
    }),

  unbind: (unbinding, since) =>
    session.write('deviceCas.unbind', [unbinding, since], (tables, { deviceId, ...input }, since) => {
      const row = rowOf(unbindingColumns, input);
      const key = keyOf(row.caId, row.commonName);
      const bound = tables.caSubjects.get(key);
      if (bound?.deviceId !== deviceId || bound.tenantId !== row.tenantId) return false;
      tables.caSubjects.delete(key);
      const isForgotten = (one: DeviceCertificate) =>
        one.caId === row.caId && one.commonName === row.commonName && one.deviceId === deviceId;
      for (const one of tables.deviceCertificates.where(isForgotten))
        if (one.revokedAt === null && (one.firstUsedAt ?? 0) > since)
          tables.deviceCertificates.delete(keyOf(one.caId, one.serialNumber));
      tables.unboundSubjects.set(key, { ...row, tenantId: tables.unboundSubjects.get(key)?.tenantId ?? row.tenantId });
      return true;
    }),

  isUnbound: (caId, commonName) =>
    session.read('deviceCas.isUnbound', [caId, commonName], (tables, caId, commonName) =>
      tables.unboundSubjects.has(keyOf(caId, commonName)),
    ),

  countRegistered: (caId) =>
    session.read(
      'deviceCas.countRegistered',
      [caId],
      (tables, caId) => tables.caSubjects.where((one) => one.caId === caId && one.boundBy === null).length,
    ),

  countDevices: (caId) =>
    session.read('deviceCas.countDevices', [caId], (tables, caId) => {
      const bound = tables.caSubjects.where((one) => one.caId === caId);
      return new Set(bound.map(({ deviceId }) => deviceId)).size;
    }),

  subjectsOf: (deviceId) =>
    session.read('deviceCas.subjectsOf', [deviceId], (tables, deviceId) =>
      tables.caSubjects
        .where((one) => one.deviceId === deviceId)
        .sort((a, b) => a.boundAt - b.boundAt || byText(a.caId, b.caId) || byText(a.commonName, b.commonName)),
    ),

  recordCertificate: (certificate, at, kept) =>
    session.write('deviceCas.recordCertificate', [certificate, at, kept], (tables, input, at, { since, most }) => {
      const unrevoked = { revokedAt: null, revokedBy: null, reason: null };
      const row = rowOf(certificateColumns, { ...unrevoked, ...input, firstUsedAt: at });
      const key = keyOf(row.caId, row.serialNumber);
      const known = tables.deviceCertificates.get(key);
      if (known !== undefined && known.deviceId !== null) return known;
      const isKept = (one: DeviceCertificate) => one.revokedAt !== null || (one.firstUsedAt ?? 0) <= since;
      const own = tables.deviceCertificates.where((one) => one.deviceId === row.deviceId && !isKept(one));
      for (const one of own.sort(newestUse).slice(most - 1))
        tables.deviceCertificates.delete(keyOf(one.caId, one.serialNumber));
      const { revokedAt = null, revokedBy = null, reason = null, tenantId = row.tenantId } = known ?? {};
      const stored = { ...row, tenantId, revokedAt, revokedBy, reason };
      tables.deviceCertificates.set(key, stored);
      return stored;
    }),

  certificate: (caId, serialNumber) =>
    session.read(
      'deviceCas.certificate',
      [caId, serialNumber],
      (tables, caId, serialNumber) => tables.deviceCertificates.get(keyOf(caId, serialNumber)) ?? null,
    ),

  certificatesOf: (deviceId) =>
    session.read('deviceCas.certificatesOf', [deviceId], (tables, deviceId) =>
      tables.deviceCertificates.where((one) => one.deviceId === deviceId).sort(newestUse),
    ),

  revoke: (revocation, most) =>
    session.write('deviceCas.revoke', [revocation, most], (tables, input, most) => {
      const unused = { deviceId: null, commonName: null, fingerprint: null, notAfter: null, firstUsedAt: null };
      const row = rowOf(certificateColumns, { ...unused, ...input });
      const key = keyOf(row.caId, row.serialNumber);
      const now = row.revokedAt as number;
      const isExpired = ({ notAfter }: DeviceCertificate) => notAfter !== null && notAfter < now;
      const revoked = tables.deviceCertificates.where((one) => one.caId === row.caId && one.revokedAt !== null);
      for (const one of revoked) {
        const oneKey = keyOf(one.caId, one.serialNumber);
        if (oneKey !== key && isExpired(one)) tables.deviceCertificates.delete(oneKey);
      }
      const known = tables.deviceCertificates.get(key);
      if (known !== undefined && known.revokedAt !== null) return 'already';
      if (revoked.filter((one) => !isExpired(one)).length >= most) return 'full';
      const { revokedAt, revokedBy, reason } = row;
      tables.deviceCertificates.set(key, { ...(known ?? row), revokedAt, revokedBy, reason });
      return 'revoked';
    }),

  isInForce: (caId, serialNumber) =>
    session.read('deviceCas.isInForce', [caId, serialNumber], (tables, caId, serialNumber) => {
      const certificate = tables.deviceCertificates.get(keyOf(caId, serialNumber));
      if (certificate === undefined || certificate.revokedAt !== null) return false;
      const bound = tables.caSubjects.get(keyOf(caId, certificate.commonName ?? ''));
      return tables.deviceCas.get(caId)?.status === 'active' && bound?.deviceId === certificate.deviceId;
    }),
});
