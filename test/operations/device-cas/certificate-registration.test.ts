import { v7 } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { NotOwner } from '../../../src/actors/contract.ts';
import { LocalShards } from '../../../src/actors/owned-shards.ts';
import type { DeviceCa } from '../../../src/domain/device-ca.ts';
import { SHARD_COUNT, shardOf } from '../../../src/domain/shards.ts';
import { registerByCertificate } from '../../../src/operations/device-cas/certificate-registration.ts';
import { CommitUnknown } from '../../../src/store/contract.ts';
import { testClock } from '../../support/clock.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let ca: DeviceCa;

const shards = new LocalShards();
beforeAll(async () => {
  shards.add(Array(SHARD_COUNT).keys());
  service = await startHttpService({ shards });
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  const { deviceCas } = service.store;
  const { tenantId, homeId, userId } = mine;
  const [codeHash, now] = [v7(), service.clock.now()];
  await deviceCas.beginVerification({ tenantId, codeHash, createdBy: userId, expiresAt: now + 1 }, 1, now);
  const rule = { homeId, roomId: null, deviceType: 'smart_light', subjectPattern: null, maxDevices: 5, setBy: userId };
  ca = {
    ...{ id: v7(), tenantId, name: 'Factory', status: 'active', certificate: 'PEM', fingerprint: 'f' },
    ...{ subjectHash: v7(), publicKeyHash: v7(), subject: 'CN=CA', notAfter: now + 1, registration: rule },
    ...{ createdBy: userId, createdAt: now },
  };
  await deviceCas.insert(ca, { codeHash, now, mostOfSubject: 1 });
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(() => service.close());

const register = (commonName: string) =>
  registerByCertificate(service.services, ca, commonName, { address: '192.0.2.1', serialNumber: '01' });
const devices = async () => (await mine.call('GET', '/devices')).body.devices;

describe('a device', () => {
  it('is registered once for a common name', async () => {
    const first = await register('lamp-1');
    expect(first).toMatchObject({ ok: true });
    expect(await register('lamp-1')).toEqual(first);
    expect(await devices()).toMatchObject([{ name: 'lamp-1' }]);
  });

  it.each(['\ufefflamp-1', 'lamp\u200b-1', ' '])('is not registered as %j', async (commonName) => {
    expect(await register(commonName)).toMatchObject({ ok: false, refusal: { code: 'FORBIDDEN' } });
    expect(await devices()).toEqual([]);
  });

  it('is not registered in a tenant that was suspended while another registration ran', async () => {
    const ended = Promise.withResolvers<void>();
    const other = service.services.locks.exclusive(`ca:${ca.id}`, () => ended.promise);
    const registration = register('lamp-1');
    const operator = await service.token('operator', { scope: 'platform:admin' });
    const path = `/v1/admin/tenants/${mine.tenantId}/suspend`;
    const suspended = await service.call('POST', path, { token: operator, body: { reason: 'Unpaid' } });
    expect(suspended.status).toBe(200);
    ended.resolve();
    await other;
    expect(await registration).toMatchObject({ ok: false, refusal: { code: 'FORBIDDEN' } });
    expect(await service.store.devices.count(mine.tenantId)).toBe(0);
  });

  it('is not registered again for a common name that was unbound, until a person binds it', async () => {
    const first = await register('lamp-1');
    const [{ id }] = await devices();
    const path = `/devices/${id}/certificates`;
    expect((await mine.call('DELETE', `${path}?ca_id=${ca.id}&common_name=lamp-1`)).status).toBe(204);
    expect(await register('lamp-1')).toMatchObject({ ok: false, refusal: { code: 'FORBIDDEN' } });
    expect(await devices()).toHaveLength(1);
    expect((await mine.call('POST', path, { ca_id: ca.id, common_name: 'lamp-1' })).status).toBe(201);
    expect(await register('lamp-1')).toEqual(first);
  });

  it('is registered by a rule whose setter is no longer a member', async () => {
    const { registration } = ca;
    await service.store.deviceCas.update({ ...ca, registration: { ...registration, setBy: v7() } as never });
    expect(await register('lamp-1')).toMatchObject({ ok: true });
  });

  it('whose binding failed is bound at the next sign-in, also at the quota', async () => {
    const bind = vi.spyOn(service.store.deviceCas, 'bind').mockRejectedValueOnce(new Error('The process ended'));
    await expect(register('lamp-1')).rejects.toThrow('The process ended');
    expect(bind).toHaveBeenCalledTimes(1);
    const [device] = await devices();
    vi.spyOn(service.store.devices, 'count').mockResolvedValue(1_000_000);
    expect(await register('lamp-2')).toMatchObject({ ok: false, refusal: { code: 'QUOTA_REACHED' } });
    expect(await register('lamp-1')).toEqual({ ok: true, value: device.id });
  });

  it.each([
    ['took effect', true],
    ['had no effect', false],
  ])('is audited once if the outcome of its binding was unknown and it %s', async (_, hasEffect) => {
    const { deviceCas } = service.store;
    const bind = deviceCas.bind.bind(deviceCas);
    vi.spyOn(deviceCas, 'bind').mockImplementationOnce(async (...given) => {
      if (hasEffect) await bind(...given);
      throw new CommitUnknown('connection lost');
    });
    await expect(register('lamp-1')).rejects.toBeInstanceOf(CommitUnknown);
    expect(await register('lamp-1')).toMatchObject({ ok: true });
    await register('lamp-1');
    const { entries } = (await mine.call('GET', '/audit?action=registerDeviceByCertificate')).body;
    const [{ id }] = await devices();
    expect(entries).toMatchObject([{ subject: `device:${id}`, via: 'mqtt' }]);
  });

  it('is an operation of its shard until it is bound, and is not registered while the shard leaves', async () => {
    const { deviceCas } = service.store;
    const bind = deviceCas.bind.bind(deviceCas);
    const [held, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    vi.spyOn(deviceCas, 'bind').mockImplementationOnce(async (...given) => {
      reached.resolve();
      await held.promise;
      return bind(...given);
    });
    const shard = new Set([shardOf(mine.tenantId)]);
    const isIdle = () => shards.operations.whenEnded(shard, testClock(), 0);
    const registered = register('lamp-1');
    await reached.promise;
    shards.startLeaving(shard);
    expect(await isIdle()).toBe(false);
    const refused = expect(register('lamp-2')).rejects.toBeInstanceOf(NotOwner);
    held.resolve();
    await refused;
    expect(await registered).toMatchObject({ ok: true });
    expect(await isIdle()).toBe(true);
    shards.stay(shard);
    expect(await devices()).toHaveLength(1);
  });

  it('of a common name that was bound at the same time is the one that it was bound to', async () => {
    const { deviceCas } = service.store;
    const other = await mine.register();
    const bind = deviceCas.bind.bind(deviceCas);
    vi.spyOn(deviceCas, 'bind').mockImplementationOnce(async (subject, replaced) => {
      await bind({ ...subject, deviceId: other.device_id, boundBy: mine.userId }, null);
      return bind(subject, replaced);
    });
    expect(await register('lamp-1')).toEqual({ ok: true, value: other.device_id });
  });
});
