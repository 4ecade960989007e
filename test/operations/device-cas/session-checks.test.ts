import { v7 } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { DeviceCa } from '../../../src/domain/device-ca.ts';
import type { Invalidation } from '../../../src/services/invalidation-bus.ts';
import { CommitUnknown, StoreUnavailable } from '../../../src/store/contract.ts';
import { type HttpService, startHttpService } from '../../support/http-service.ts';
import { makeTestTenant, type TestTenant } from '../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let caId: string;
let device: string;
/** Published since the test began. */
let checked: Invalidation[];

beforeAll(async () => {
  service = await startHttpService();
  service.services.invalidations.subscribe((item) => {
    if (item.about === 'ca') checked.push(item);
  });
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  const { deviceCas } = service.store;
  const { tenantId, userId } = mine;
  const [codeHash, now] = [v7(), service.clock.now()];
  caId = v7();
  await deviceCas.beginVerification({ tenantId, codeHash, createdBy: userId, expiresAt: now + 1 }, 1, now);
  const ca: DeviceCa = {
    ...{ id: caId, tenantId, name: 'Factory', status: 'active', certificate: 'PEM', fingerprint: v7() },
    ...{ subjectHash: v7(), publicKeyHash: v7(), subject: 'CN=CA', notAfter: now + 1, registration: null },
    ...{ createdBy: userId, createdAt: now },
  };
  await deviceCas.insert(ca, { codeHash, now, mostOfSubject: 1 });
  device = (await mine.register()).device_id;
  await deviceCas.bind({ caId, commonName: 'lamp', tenantId, deviceId: device, boundBy: userId, boundAt: now }, null);
  checked = [];
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(() => service.close());

type Change = 'delete' | 'revoke' | 'unbind' | 'update';

const changes: [what: string, change: Change, send: () => Promise<{ status: number }>, check: () => object][] = [
  ['is deactivated', 'update', () => mine.call('PATCH', `/cas/${caId}`, { status: 'inactive' }), () => ({})],
  ['is deleted', 'delete', () => mine.call('DELETE', `/cas/${caId}`), () => ({})],
  [
    'no longer has the name of a device',
    'unbind',
    () => mine.call('DELETE', `/devices/${device}/certificates?ca_id=${caId}&common_name=lamp`),
    () => ({ deviceId: device }),
  ],
  [
    'has a certificate revoked',
    'revoke',
    () => mine.call('POST', `/cas/${caId}/revocations`, { serial_number: '4F2A9C' }),
    () => ({ serialNumber: '4F2A9C' }),
  ],
];

/** Fails the next change; with a commit whose outcome is unknown, the change takes effect. */
function failOnce(change: Change, fault: Error): void {
  const deviceCas = service.store.deviceCas as unknown as Record<Change, (...given: unknown[]) => Promise<unknown>>;
  const take = deviceCas[change].bind(deviceCas);
  vi.spyOn(deviceCas, change).mockImplementationOnce(async (...given) => {
    if (fault instanceof CommitUnknown) await take(...given);
    throw fault;
  });
}

describe.each(changes)('a CA that %s', (_, change, send, check) => {
  it('has its sessions checked', async () => {
    expect((await send()).status).toBeLessThan(300);
    expect(checked).toEqual([{ about: 'ca', id: caId, ...check() }]);
  });

  it('has its sessions checked if the outcome of the commit is unknown', async () => {
    failOnce(change, new CommitUnknown('connection lost'));
    expect((await send()).status).toBe(503);
    expect(checked).toEqual([{ about: 'ca', id: caId, ...check() }]);
  });

  it('has none checked if the change had no effect', async () => {
    failOnce(change, new StoreUnavailable('no connection'));
    expect((await send()).status).toBe(503);
    expect(checked).toEqual([]);
  });
});
