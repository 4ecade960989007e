import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type HttpService, startHttpService } from '../../../support/http-service.ts';
import { type CheckFields, signedCheck } from '../../../support/signed-check.ts';
import { makeTestTenant, type TestTenant } from '../../../support/test-tenant.ts';

// Which checks of devices count as failed sign-ins of their address, and their share of its limit.

const ANONYMOUS = 40;
const SIGN_INS = 2;
const NODES = 4;

let service: HttpService;
let mine: TestTenant;
let device: { device_id: string; device_secret: string };

const request = (more?: CheckFields, key = device.device_secret): CheckFields =>
  signedCheck({ deviceId: device.device_id, tenantId: mine.tenantId, now: service.clock.now() }, key, more);
const ask = (body: CheckFields) => service.call('POST', '/v1/firmware/check', { body });
const times = async (count: number, send: () => Promise<{ status: number }>) => {
  const statuses: number[] = [];
  for (let n = 0; n < count; n++) statuses.push((await send()).status);
  return statuses;
};
/** The sign-ins that this address may still fail in this minute. */
const leftOfSignIns = (): number => {
  const [, , , remaining] = service.rateLimiter.signInRateHeaders('127.0.0.1');
  return Number(/r=(\d+)/.exec(remaining ?? '')?.[1]);
};

describe('a check for firmware that a device has signed', () => {
  beforeAll(async () => {
    service = await startHttpService({ fixedRates: { anonymous: 0, signIns: SIGN_INS } });
  });
  afterAll(() => service.close());
  beforeEach(async () => {
    service.clock.advance(60_001);
    mine = await makeTestTenant(service);
    device = await mine.register({ device_type: 'smart_light' });
  });

  it.each([-121_000, 121_000])(
    'does not count as a failed sign-in with a clock that is %i ms off, and names the reason',
    async (ms) => {
      for (let n = 0; n < SIGN_INS + 2; n++) {
        const { status, body } = await ask(request({ timestamp: service.clock.now() + ms }));
        expect([status, body.code, body.detail]).toEqual([
          401,
          'UNAUTHENTICATED',
          expect.stringContaining('timestamp'),
        ]);
      }
      expect(leftOfSignIns()).toBe(SIGN_INS);
      expect((await ask(request())).status).toBe(200);
    },
  );

  it('does not count as a failed sign-in if it was sent before', async () => {
    const sent = request();
    expect(await times(SIGN_INS + 3, () => ask(sent))).toEqual([200, ...Array(SIGN_INS + 2).fill(401)]);
    expect((await ask(sent)).body.detail).toContain('sent before');
    expect(leftOfSignIns()).toBe(SIGN_INS);
  });

  it('does not count as a failed sign-in of a suspended tenant', async () => {
    const operator = await service.token('operator', { scope: 'platform:admin' });
    const set = (state: string) =>
      service.call('POST', `/v1/admin/tenants/${mine.tenantId}/${state}`, {
        token: operator,
        body: { reason: 'Unpaid' },
      });
    expect((await set('suspend')).status).toBe(200);
    expect(await times(SIGN_INS + 2, () => ask(request()))).toEqual(Array(SIGN_INS + 2).fill(401));
    expect((await ask(request())).body.detail).toBe('The tenant is suspended.');
    expect(leftOfSignIns()).toBe(SIGN_INS);
  });

  it('does not count as a failed sign-in of a revoked device, or with a key that has ended', async () => {
    await mine.call('POST', `/device/${device.device_id}/rotate-secret`, {});
    await mine.call('POST', `/device/${device.device_id}/rotate-secret`, {});
    expect((await ask(request())).body).toMatchObject({
      status: 401,
      detail: expect.stringContaining('key has ended'),
    });
    await mine.call('POST', `/device/${device.device_id}/revoke`, {});
    expect(await times(SIGN_INS + 2, () => ask(request()))).toEqual(Array(SIGN_INS + 2).fill(401));
    expect((await ask(request())).body.detail).toBe('The device is revoked.');
    expect(leftOfSignIns()).toBe(SIGN_INS);
  });

  it('is a failed sign-in with another signature, whatever the state of the device, and does not show that state', async () => {
    const wrong = 'A'.repeat(device.device_secret.length);
    const details = new Set<string>();
    const attempts = [
      () => request({}, wrong),
      () => request({ timestamp: service.clock.now() - 121_000 }, wrong),
      () => ({ ...request(), key_version: 7 }),
      () => ({ ...request(), device_id: '0195d9a2-7f00-7000-8000-00000000ffff' }),
    ];
    for (const attempt of attempts) {
      service.clock.advance(60_001);
      const { status, body } = await ask(attempt());
      expect([status, body.code, leftOfSignIns()]).toEqual([401, 'UNAUTHENTICATED', SIGN_INS - 1]);
      details.add(body.detail);
    }
    await mine.call('POST', `/device/${device.device_id}/revoke`, {});
    service.clock.advance(60_001);
    details.add((await ask(request({}, wrong))).body.detail);
    expect([...details]).toEqual(['The signature is not valid.']);
    await ask(request({}, wrong));
    expect((await ask(request({}, wrong))).status).toBe(429);
  });
});

describe('several nodes that share no counters', () => {
  it('grant checks of devices the whole limit of an address at the node that serves the tenant, and other requests a share', async () => {
    service = await startHttpService({ fixedRates: { anonymous: ANONYMOUS }, sharingNodes: NODES });
    try {
      mine = await makeTestTenant(service);
      device = await mine.register({ device_type: 'smart_light' });
      const checks = await times(ANONYMOUS + 1, () => ask(request()));
      expect(checks).toEqual([...Array(ANONYMOUS).fill(200), 429]);
      const others = await times(ANONYMOUS / NODES + 1, () => service.call('GET', '/v1/version'));
      expect(others).toEqual([...Array(ANONYMOUS / NODES).fill(200), 429]);
    } finally {
      await service.close();
    }
  });
});
