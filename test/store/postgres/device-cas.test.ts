import { expect, it } from 'vitest';
import type { BoundSubject, DeviceCa } from '../../../src/domain/device-ca.ts';
import type { UsedCertificate } from '../../../src/store/contract/device-cas.ts';
import { idempotencyRow, newId } from '../../support/actor-commits.ts';
import { eachStore } from '../../support/store.ts';

eachStore('device CAs', (backend) => {
  const cas = () => backend().store.deviceCas;
  const code = (codeHash: string, more: object = {}) => ({ codeHash, now: 10, mostOfSubject: 2, ...more });
  const begun = (tenantId: string, codeHash: string, expiresAt = 20) =>
    cas().beginVerification({ tenantId, codeHash, createdBy: newId(), expiresAt }, 2, 10);
  const one = (tenantId: string, more: Partial<DeviceCa> = {}): DeviceCa => ({
    ...{ id: newId(), tenantId, name: 'Factory', status: 'active', certificate: 'PEM', fingerprint: 'f' },
    ...{ subjectHash: newId(), publicKeyHash: newId(), subject: 'CN=CA', notAfter: 99, registration: null },
    ...{ createdBy: newId(), createdAt: 10 },
    ...more,
  });
  const inserted = async (more: Partial<DeviceCa> = {}): Promise<DeviceCa> => {
    const ca = one(newId(), more);
    await begun(ca.tenantId, 'code');
    expect(await cas().insert(ca, code('code'))).toBe('inserted');
    return ca;
  };

  it('have as many open codes as given, without those that end first', async () => {
    const tenantId = newId();
    await begun(tenantId, 'a', 10);
    await begun(tenantId, 'b', 19);
    await begun(tenantId, 'c', 20);
    await begun(newId(), 'd', 30);
    await begun(tenantId, 'd', 15);
    const outcomes: string[] = [];
    for (const name of ['a', 'b', 'c', 'd']) outcomes.push(await cas().insert(one(tenantId), code(name)));
    expect(outcomes).toEqual(['no_code', 'no_code', 'inserted', 'inserted']);
  });

  it('are inserted with an open code of the tenant, which is used up', async () => {
    const tenantId = newId();
    const rule = {
      homeId: newId(),
      roomId: null,
      deviceType: 'lamp',
      subjectPattern: 'l*',
      maxDevices: 3,
      setBy: newId(),
    };
    const ca = one(tenantId, { registration: rule });
    const also = idempotencyRow();
    await begun(tenantId, 'open');
    await begun(tenantId, 'late', 11);
    expect(await cas().insert(ca, code('unknown'), also)).toBe('no_code');
    expect(await cas().insert(one(newId()), code('open'))).toBe('no_code');
    expect(await cas().insert(ca, code('late', { now: 11 }))).toBe('no_code');
    expect(await backend().store.idempotency.find(also)).toBeNull();
    expect(await cas().insert(ca, code('open'), also)).toBe('inserted');
    expect(await backend().store.idempotency.find(also)).toEqual(also);
    expect(await cas().insert(one(tenantId), code('open'))).toBe('no_code');
    expect([await cas().list(tenantId), await cas().find(tenantId, ca.id), await cas().count(tenantId)]).toEqual([
      ...[[ca], ca, 1],
    ]);
    expect(await cas().find(newId(), ca.id)).toBeNull();
  });

  it('have each public key once, and a subject in a tenant as often as given', async () => {
    const { publicKeyHash, subjectHash } = await inserted();
    const [taken, tenantId] = [newId(), newId()];
    await begun(taken, 'code');
    await begun(tenantId, 'a');
    await begun(tenantId, 'b');
    expect(await cas().insert(one(taken, { publicKeyHash }), code('code'))).toBe('taken');
    const own = one(tenantId, { subjectHash, createdAt: 20 });
    expect(await cas().insert(own, code('a', { mostOfSubject: 1 }))).toBe('inserted');
    const more = one(tenantId, { subjectHash, createdAt: 15 });
    expect(await cas().insert(more, code('b', { mostOfSubject: 1 }))).toBe('same_subject');
    // The code is not used up.
    expect(await cas().insert(more, code('b'))).toBe('inserted');
    const found = async (of: string | null, most: number) =>
      (await cas().bySubject(subjectHash, { tenantId: of, most })).map(({ createdAt }) => createdAt);
    expect([await found(null, 9), await found(null, 2), await found(tenantId, 9), await found(tenantId, 1)]).toEqual([
      ...[[10, 15, 20], [10, 15], [15, 20], [15]],
    ]);
    expect(await found(newId(), 9)).toEqual([]);
  });

  it('are changed and deleted by their tenant', async () => {
    const ca = await inserted();
    const changed: DeviceCa = { ...ca, name: 'Plant', status: 'inactive' };
    expect([await cas().update({ ...changed, tenantId: newId() }), await cas().update(changed)]).toEqual([false, true]);
    expect(await cas().find(ca.tenantId, ca.id)).toEqual(changed);
    expect([await cas().delete(newId(), ca.id, 20), await cas().delete(ca.tenantId, ca.id, 20)]).toEqual([false, true]);
    expect(await cas().delete(ca.tenantId, ca.id, 30)).toBe(false);
  });

  it('are renewed by their tenant with an open code, which is used up, and keep everything but the certificate', async () => {
    const ca = await inserted();
    const { tenantId } = ca;
    const renewed = { ...ca, certificate: 'PEM 2', fingerprint: 'g', notAfter: 199 };
    const also = idempotencyRow();
    const open = (codeHash: string, tenant = tenantId) =>
      begun(tenant, codeHash, 20).then(() => ({ codeHash, now: 10 }));
    expect(await cas().renew(renewed, { codeHash: 'none', now: 10 }, also)).toBe('no_code');
    expect(await cas().renew(renewed, { ...(await open('late')), now: 20 }, also)).toBe('no_code');
    const other = newId();
    expect(await cas().renew({ ...renewed, tenantId: other }, await open('other', other), also)).toBe('unknown');
    expect(await cas().renew({ ...renewed, subjectHash: newId() }, await open('subject'), also)).toBe('unknown');
    expect([await cas().find(tenantId, ca.id), await backend().store.idempotency.find(also)]).toEqual([ca, null]);
    const code = await open('code');
    expect(await cas().renew(renewed, code, also)).toBe('renewed');
    expect([await cas().find(tenantId, ca.id), await backend().store.idempotency.find(also)]).toEqual([renewed, also]);
    expect(await cas().renew(renewed, code)).toBe('no_code');
  });

  it('unbind a subject from its device, without certificates that the device has used since its revocation', async () => {
    const { id: caId, tenantId } = await inserted();
    const [deviceId, by] = [newId(), newId()];
    await cas().bind({ caId, commonName: 'lamp', tenantId, deviceId, boundBy: null, boundAt: 5 }, null);
    const used = { caId, tenantId, deviceId, commonName: 'lamp', fingerprint: 'f', notAfter: 99 };
    for (const [serialNumber, at] of [
      ['01', 1],
      ['02', 6],
      ['03', 7],
    ] as const)
      await cas().recordCertificate({ ...used, serialNumber }, at, { since: 0, most: 9 });
    await cas().recordCertificate({ ...used, commonName: 'other', serialNumber: '04' }, 8, { since: 0, most: 9 });
    await cas().revoke({ tenantId, caId, serialNumber: '03', revokedAt: 8, revokedBy: by, reason: null }, 9);
    expect([await cas().isInForce(caId, '02'), await cas().isUnbound(caId, 'lamp')]).toEqual([true, false]);
    const unbinding = { caId, commonName: 'lamp', tenantId, deviceId, unboundBy: by, unboundAt: 9 };
    expect(await cas().unbind({ ...unbinding, deviceId: newId() }, 1)).toBe(false);
    expect(await cas().unbind({ ...unbinding, tenantId: newId() }, 1)).toBe(false);
    expect(await cas().unbind(unbinding, 1)).toBe(true);
    expect(await cas().unbind(unbinding, 1)).toBe(false);
    expect([await cas().subject(caId, 'lamp'), await cas().isUnbound(caId, 'lamp')]).toEqual([null, true]);
    const serials = (await cas().certificatesOf(deviceId)).map(({ serialNumber }) => serialNumber);
    expect(serials).toEqual(['04', '03', '01']);
    expect(await cas().isInForce(caId, '01')).toBe(false);
    await cas().bind({ caId, commonName: 'lamp', tenantId, deviceId, boundBy: by, boundAt: 10 }, null);
    expect([await cas().isInForce(caId, '01'), await cas().isUnbound(caId, 'lamp')]).toEqual([true, false]);
  });

  it('bind a subject to one device, unless that device is replaced', async () => {
    const [caId, tenantId, deviceId, next] = [newId(), newId(), newId(), newId()];
    const subject: BoundSubject = { caId, commonName: 'lamp', tenantId, deviceId, boundBy: null, boundAt: 5 };
    expect(await cas().bind(subject, null)).toBe(true);
    expect([await cas().subject(caId, 'lamp'), await cas().subjectsOf(deviceId)]).toEqual([subject, [subject]]);
    expect(await cas().countRegistered(caId)).toBe(1);
    const moved = { ...subject, deviceId: next, boundBy: newId(), boundAt: 6 };
    expect([await cas().bind(moved, null), await cas().bind(moved, newId())]).toEqual([false, false]);
    expect(await cas().bind(moved, deviceId)).toBe(true);
    expect([await cas().subject(caId, 'lamp'), await cas().countRegistered(caId)]).toEqual([moved, 0]);
    for (const [commonName, of] of [
      ['lamp-2', next],
      ['lamp-3', deviceId],
    ] as const)
      await cas().bind({ ...subject, commonName, deviceId: of }, null);
    expect([await cas().countDevices(caId), await cas().countDevices(newId())]).toEqual([2, 0]);
  });

  it('keep the newest certificates of a device, and all that were used before a time', async () => {
    const { id: caId, tenantId } = await inserted();
    const deviceId = newId();
    const used = (serialNumber: string): UsedCertificate => ({
      ...{ caId, serialNumber, tenantId, deviceId, commonName: 'lamp', fingerprint: `f${serialNumber}`, notAfter: 99 },
    });
    for (const at of [1, 2, 3, 4, 5]) await cas().recordCertificate(used(`0${at}`), at, { since: 1, most: 2 });
    const kept = await cas().certificatesOf(deviceId);
    expect(kept.map(({ serialNumber }) => serialNumber)).toEqual(['05', '04', '01']);
    const again = await cas().recordCertificate({ ...used('04'), fingerprint: 'other' }, 9, { since: 1, most: 2 });
    expect(again).toMatchObject({ fingerprint: 'f04', firstUsedAt: 4 });
    expect(await cas().certificate(caId, '04')).toEqual(again);
  });

  it('revoke a certificate before or after its first use', async () => {
    const { id: caId, tenantId } = await inserted();
    const deviceId = newId();
    const used = { caId, serialNumber: '01', tenantId, deviceId, commonName: 'lamp', fingerprint: 'f', notAfter: 99 };
    const revocation = { tenantId, caId, serialNumber: '01', revokedAt: 20, revokedBy: newId(), reason: 'Lost' };
    expect(await cas().isInForce(caId, '01')).toBe(false);
    await cas().bind({ caId, commonName: 'lamp', tenantId, deviceId, boundBy: null, boundAt: 1 }, null);
    await cas().recordCertificate(used, 5, { since: 0, most: 5 });
    expect(await cas().isInForce(caId, '01')).toBe(true);
    expect(await cas().revoke(revocation, 2)).toBe('revoked');
    expect(await cas().isInForce(caId, '01')).toBe(false);
    expect(await cas().revoke({ ...revocation, reason: null }, 2)).toBe('already');
    const unused = { ...revocation, serialNumber: '02' };
    expect(await cas().revoke(unused, 2)).toBe('revoked');
    expect(await cas().revoke({ ...revocation, serialNumber: '03' }, 2)).toBe('full');
    expect(await cas().recordCertificate({ ...used, serialNumber: '02' }, 30, { since: 0, most: 5 })).toEqual({
      ...used,
      ...{ serialNumber: '02', firstUsedAt: 30, revokedAt: 20, revokedBy: revocation.revokedBy, reason: 'Lost' },
    });
    // Both have expired, and are forgotten.
    expect(await cas().revoke({ ...revocation, serialNumber: '03', revokedAt: 100 }, 2)).toBe('revoked');
    expect([await cas().certificate(caId, '01'), await cas().certificate(caId, '02')]).toEqual([null, null]);
  });

  it('are in force while they are active', async () => {
    const ca = await inserted();
    const used = { caId: ca.id, serialNumber: '01', tenantId: ca.tenantId, deviceId: newId() };
    const { caId, tenantId, deviceId } = used;
    await cas().bind({ caId, commonName: 'a', tenantId, deviceId, boundBy: null, boundAt: 1 }, null);
    await cas().recordCertificate({ ...used, commonName: 'a', fingerprint: 'f', notAfter: 9 }, 5, {
      since: 0,
      most: 5,
    });
    expect(await cas().isInForce(ca.id, '01')).toBe(true);
    await cas().update({ ...ca, status: 'inactive' });
    expect(await cas().isInForce(ca.id, '01')).toBe(false);
  });
});
