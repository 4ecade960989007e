import { hash } from 'node:crypto';
import { v7 } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Certificate, parseCertificate } from '../../../../src/protocol/certificate.ts';
import {
  around,
  CERT_SIGN,
  type CertificateOptions,
  extension,
  issue,
  makeAuthority,
  rsaKeys,
  SIGNATURE,
  type TestCertificate,
} from '../../../support/certificates.ts';
import type { HttpService } from '../../../support/http-service.ts';
import { makeTestTenant, startHttpServiceOnDatabase, type TestTenant } from '../../../support/test-tenant.ts';

let service: HttpService;
let mine: TestTenant;
let authority: TestCertificate;

beforeAll(async () => {
  service = await startHttpServiceOnDatabase();
});
beforeEach(async () => {
  mine = await makeTestTenant(service);
  authority = newAuthority();
});
afterAll(() => service.close());

const newAuthority = (more: CertificateOptions = {}) => makeAuthority({ ...around(service.clock.now()), ...more });
const codeOf = async (tenant = mine): Promise<string> =>
  (await tenant.call('POST', '/cas/verifications')).body.verification_code;
const send = (proof: TestCertificate, more: object = {}, tenant = mine) =>
  tenant.call('POST', '/cas', {
    ...{ name: 'Factory', certificate: authority.pem, verification_certificate: proof.pem, ...more },
  });
const register = async (more: object = {}, tenant = mine) => send(issue(authority, await codeOf(tenant)), more, tenant);
/** Another tenant's CA with the same subject. */
async function squat({ der }: TestCertificate): Promise<void> {
  const { subjectHash } = parseCertificate(der) as Certificate;
  const [tenantId, now] = [v7(), service.clock.now()];
  const code = { tenantId, codeHash: v7(), createdBy: v7(), expiresAt: now + 1 };
  await service.store.deviceCas.beginVerification(code, 10, now);
  await service.store.deviceCas.insert(
    {
      ...{ id: v7(), tenantId, name: 'Factory', status: 'active', certificate: 'PEM', fingerprint: 'f', subjectHash },
      ...{ publicKeyHash: v7(), subject: 'CN=Test CA', notAfter: now, registration: null },
      ...{ createdBy: v7(), createdAt: now - 1 },
    },
    { codeHash: code.codeHash, now, mostOfSubject: 1 },
  );
}
const pathsOf = (errors: { path: string }[]) => errors.map(({ path }) => path);

describe('a CA', () => {
  it('is registered with a rule, listed, changed and deleted', async () => {
    const rule = { home_id: mine.homeId, room_id: mine.roomId, device_type: 'smart_light' };
    const { status, body } = await register({ registration: rule });
    expect(status).toBe(201);
    expect(body.ca).toMatchObject({
      ...{ id: body.id, name: 'Factory', status: 'active', subject: 'CN=Test CA', certificate: authority.pem },
      registration: {
        ...{ ...rule, subject_pattern: null, max_devices: 1_000, set_by: mine.userId, set_by_role: 'owner' },
        set_at: new Date(service.clock.now()).toISOString(),
      },
    });
    expect((await mine.call('GET', '/cas')).body.cas).toEqual([body.ca]);
    const changes = { name: 'Plant 2', status: 'inactive', registration: null };
    const changed = await mine.call('PATCH', `/cas/${body.id}`, changes);
    expect(changed.body.ca).toEqual({ ...body.ca, ...changes });
    expect((await mine.call('GET', `/cas/${body.id}`)).body.ca).toEqual(changed.body.ca);
    expect((await mine.call('DELETE', `/cas/${body.id}`)).status).toBe(204);
    expect((await mine.call('GET', '/cas')).body.cas).toEqual([]);
  });

  it('has the same id when it is registered again', async () => {
    const first = await register();
    await mine.call('DELETE', `/cas/${first.body.id}`);
    expect((await register()).body.id).toBe(first.body.id);
  });

  it('is registered once, by one tenant, which is not named', async () => {
    const other = await makeTestTenant(service);
    const first = await register();
    expect(first.status).toBe(201);
    const foreign = await register({}, other);
    expect([foreign.status, foreign.body.detail]).toEqual([409, 'A CA with this key is registered already.']);
    // Another certificate with the same key is the same CA, also with the same subject.
    for (const commonName of ['Test CA', 'Renewed CA']) {
      authority = newAuthority({ keys: authority.keys, commonName });
      expect((await register({}, other)).status).toBe(409);
    }
    expect((await mine.call('GET', '/cas')).body.cas).toEqual([first.body.ca]);
  });

  it('is renewed by another certificate with its key and subject, also at the quota, and keeps everything else', async () => {
    const rule = { home_id: mine.homeId, device_type: 'smart_light' };
    const { body: first } = await register({ registration: rule });
    const device = await mine.register();
    await mine.call('POST', `/devices/${device.device_id}/certificates`, { ca_id: first.id, common_name: 'a' });
    await mine.call('POST', `/cas/${first.id}/revocations`, { serial_number: '4f2a' });
    await mine.call('PATCH', `/cas/${first.id}`, { status: 'inactive', name: 'Plant' });
    const own = authority;
    for (let n = 1; n < 10; n += 1) {
      authority = newAuthority({ commonName: `CA ${n}` });
      expect((await register()).status).toBe(201);
    }
    authority = newAuthority({ keys: own.keys, notAfter: service.clock.now() + 7_200_000 });
    const renewed = await register();
    expect([renewed.status, renewed.body.status, renewed.body.id]).toEqual([201, 'renewed', first.id]);
    const { fingerprint, notAfter } = parseCertificate(authority.der) as Certificate;
    expect(renewed.body.ca).toEqual({
      ...{ ...first.ca, name: 'Plant', status: 'inactive', certificate: authority.pem, fingerprint },
      ...{ not_after: new Date(notAfter).toISOString(), bound_devices: 1 },
    });
    expect((await mine.call('GET', `/cas/${first.id}`)).body.ca).toEqual(renewed.body.ca);
    const { subjects } = (await mine.call('GET', `/devices/${device.device_id}/certificates`)).body;
    expect(subjects).toMatchObject([{ ca_id: first.id, common_name: 'a' }]);
    expect((await service.store.deviceCas.certificate(first.id, '4F2A'))?.revokedAt).not.toBeNull();
    const { entries } = (await mine.call('GET', `/audit?subject=ca:${first.id}&action=registerCa`)).body;
    expect(entries).toMatchObject([{ outcome: 'done' }, { outcome: 'done' }]);
  });

  it('is renewed only with the proof of possession, with its subject and without a rule', async () => {
    const { body: first } = await register();
    const code = await codeOf();
    const refused = [
      await send(issue(newAuthority(), code)),
      await send(issue(authority, 'no code')),
      await register({ registration: { home_id: mine.homeId, device_type: 'smart_light' } }),
    ];
    expect(refused.map(({ status, body }) => [status, pathsOf(body.errors)])).toEqual([
      ...[
        [400, ['verification_certificate']],
        [400, ['verification_certificate']],
        [400, ['registration']],
      ],
    ]);
    authority = newAuthority({ keys: authority.keys, commonName: 'Another name' });
    expect((await register()).body.detail).toMatch(/with another subject/);
    expect((await mine.call('GET', '/cas')).body.cas).toEqual([first.ca]);
  });

  it('is renewed and registered by concurrent requests one after another', async () => {
    const { keys } = authority;
    const attempts = [];
    for (let n = 1; n <= 4; n += 1) {
      authority = newAuthority({ keys, notAfter: service.clock.now() + n * 3_600_000 });
      attempts.push(register());
    }
    const answers = await Promise.all(attempts);
    const statuses = answers.map(({ status, body }) => `${status} ${body.status}`).sort();
    expect(statuses).toEqual(['201 registered', ...Array(3).fill('201 renewed')]);
    const { cas } = (await mine.call('GET', '/cas')).body;
    expect(answers.map(({ body }) => body.ca)).toContainEqual(cas[0]);
    expect(cas).toHaveLength(1);
  });

  it('shows who set its rule, and the role that they have now', async () => {
    const { tokens } = mine;
    const setBy = tokens.admin as string;
    const { id: caId } = (await register()).body;
    const registration = { home_id: mine.homeId, device_type: 'smart_light' };
    expect((await mine.call('PATCH', `/cas/${caId}`, { registration }, { token: setBy })).status).toBe(200);
    const setter = async () => (await mine.call('GET', '/cas')).body.cas[0].registration;
    const { set_by: id, set_by_role: role } = await setter();
    expect(role).toBe('admin');
    expect((await mine.call('PATCH', `/tenant/members/${id}`, { role: 'viewer' })).status).toBe(200);
    expect(await setter()).toMatchObject({ set_by: id, set_by_role: 'viewer' });
    expect((await mine.call('DELETE', `/tenant/members/${id}`)).status).toBe(204);
    expect(await setter()).toMatchObject({ set_by: id, set_by_role: null });
    expect((await mine.call('GET', `/cas/${caId}`)).body.ca.registration).toEqual(await setter());
  });

  it('is registered whatever other tenants have registered with its subject', async () => {
    for (let n = 0; n < 32; n += 1) await squat(authority);
    expect(await register()).toMatchObject({ status: 201, body: { username_needed: true } });
    authority = newAuthority({ commonName: 'Its own name' });
    expect(await register()).toMatchObject({ status: 201, body: { username_needed: false } });
  });

  it('is one of four at most of its tenant with the same subject', async () => {
    for (let n = 0; n < 4; n += 1) {
      authority = newAuthority({ commonName: 'Plant' });
      expect((await register()).status).toBe(201);
    }
    authority = newAuthority({ commonName: 'Plant' });
    expect(await register()).toMatchObject({ status: 409, body: { code: 'CONFLICT' } });
  });

  it('is registered at most ten times, by the quota', async () => {
    for (let n = 0; n < 10; n += 1) {
      authority = newAuthority({ commonName: `CA ${n}` });
      expect((await register()).status).toBe(201);
    }
    authority = newAuthority({ commonName: 'CA 10' });
    expect(await register()).toMatchObject({ status: 403, body: { code: 'QUOTA_REACHED' } });
  });

  it('is changed by persons with the role admin alone, and each change is audited', async () => {
    const { tokens } = mine;
    const key = (await mine.call('POST', '/auth/api-keys', { name: 'Robot', scopes: ['all'] })).body.key;
    expect((await mine.call('POST', '/cas/verifications', {}, { token: key })).status).toBe(403);
    expect((await mine.call('POST', '/cas/verifications', {}, { token: tokens.user })).status).toBe(403);
    expect((await mine.call('POST', '/cas/verifications', {}, { token: tokens.admin })).status).toBe(201);
    const { body } = await register();
    await mine.call('POST', `/cas/${body.id}/revocations`, { serial_number: '4f:2a' });
    await mine.call('PATCH', `/cas/${body.id}`, { status: 'inactive' });
    const audit = (await mine.call('GET', '/audit?limit=200')).body.entries;
    const done = audit.filter(({ outcome }: { outcome: string }) => outcome === 'done');
    const seen = done.map(({ action, subject }: { action: string; subject: string }) => `${action} ${subject}`);
    expect(seen).toEqual(
      expect.arrayContaining([
        `registerCa ca:${body.id}`,
        `revokeCertificate certificate:${body.id}:4F2A`,
        `updateCa ca:${body.id}`,
      ]),
    );
  });

  it('and its certificates belong to one tenant', async () => {
    const { body } = await register();
    const other = await makeTestTenant(service);
    const device = await other.register();
    const answers = [
      await other.call('GET', `/cas/${body.id}`),
      await other.call('PATCH', `/cas/${body.id}`, { status: 'inactive' }),
      await other.call('DELETE', `/cas/${body.id}`),
      await other.call('POST', `/cas/${body.id}/revocations`, { serial_number: '01' }),
      await other.call('POST', `/devices/${device.device_id}/certificates`, { ca_id: body.id, common_name: 'a' }),
      await other.call('DELETE', `/devices/${device.device_id}/certificates?ca_id=${body.id}&common_name=a`),
    ];
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404, 404]);
  });
});

describe('the proof of possession', () => {
  it('is a certificate for an open code of the tenant by the key of the CA', async () => {
    const other = await makeTestTenant(service);
    const code = await codeOf();
    const attempts: [string, TestCertificate][] = [
      ['another text', issue(authority, 'code')],
      ['a code of another tenant', issue(authority, await codeOf(other))],
      ['the key of another CA', issue(newAuthority(), code)],
      ['the CA itself', authority],
    ];
    for (const [title, proof] of attempts) {
      const { status, body } = await send(proof);
      expect([title, status, pathsOf(body.errors)]).toEqual([title, 400, ['verification_certificate']]);
    }
    expect((await send(issue(authority, code))).status).toBe(201);
  });

  it('is used once', async () => {
    const code = await codeOf();
    expect((await send(issue(authority, code))).status).toBe(201);
    authority = newAuthority({ commonName: 'Next CA' });
    expect((await send(issue(authority, code))).status).toBe(400);
  });

  it('ends after 24 hours', async () => {
    const { body } = await mine.call('POST', '/cas/verifications');
    expect(Date.parse(body.expires_at) - service.clock.now()).toBe(24 * 3_600_000);
    const now = service.clock.now();
    const open = (code: string, expiresAt: number) => {
      const verification = {
        tenantId: mine.tenantId,
        codeHash: hash('sha256', code),
        createdBy: mine.userId,
        expiresAt,
      };
      return service.store.deviceCas.beginVerification(verification, 10, now);
    };
    await open('ended', now);
    await open('open', now + 1);
    expect((await send(issue(authority, 'ended'))).status).toBe(400);
    expect((await send(issue(authority, 'open'))).status).toBe(201);
  });

  it('has ten open codes at most: another one replaces the one that ends first', async () => {
    const shorter = await mine.call('POST', '/cas/verifications', { valid_for_s: 3_600 });
    expect(Date.parse(shorter.body.expires_at) - service.clock.now()).toBe(3_600_000);
    const codes = [];
    for (let n = 0; n < 10; n += 1) codes.push(await codeOf());
    expect((await send(issue(authority, shorter.body.verification_code))).status).toBe(400);
    expect((await send(issue(authority, codes[0] as string))).status).toBe(201);
  });

  it.each<[string, CertificateOptions]>([
    ['is none of a CA', { authority: false }],
    ['must not sign certificates', { keyUsage: SIGNATURE }],
    ['has a key with a public exponent of 33 bits', { keys: rsaKeys({ exponent: Buffer.from('0100000001', 'hex') }) }],
    ['has expired', { notBefore: 0, notAfter: 1 }],
    [
      'has a critical extension that is not known',
      { keyUsage: CERT_SIGN, extensions: [extension('551d1e', true, Buffer.from([0x30, 0]))] },
    ],
  ])('is not accepted for a certificate that %s', async (_, options) => {
    authority = newAuthority(options);
    const { status, body } = await register();
    expect([status, pathsOf(body.errors)]).toEqual([400, ['certificate']]);
  });
});

describe('a common name', () => {
  it('belongs to one device, until that device is revoked', async () => {
    const { body } = await register();
    const [one, two] = [await mine.register(), await mine.register()];
    const bind = (id: string) => mine.call('POST', `/devices/${id}/certificates`, { ca_id: body.id, common_name: 'a' });
    expect((await bind(one.device_id)).status).toBe(201);
    expect((await bind(one.device_id)).status).toBe(201);
    expect((await bind(two.device_id)).status).toBe(409);
    await mine.call('POST', `/device/${one.device_id}/revoke`, {});
    expect((await bind(one.device_id)).body.code).toBe('DEVICE_REVOKED');
    expect((await bind(two.device_id)).status).toBe(201);
    const { subjects } = (await mine.call('GET', `/devices/${two.device_id}/certificates`)).body;
    expect(subjects).toMatchObject([{ ca_id: body.id, common_name: 'a', bound_by: mine.userId }]);
    expect((await mine.call('GET', `/devices/${one.device_id}/certificates`)).body.subjects).toEqual([]);
  });

  it('is unbound from its device, and then bound to another one', async () => {
    const { body } = await register();
    const [one, two] = [await mine.register(), await mine.register()];
    const bind = (id: string) =>
      mine.call('POST', `/devices/${id}/certificates`, { ca_id: body.id, common_name: 'ä/ b' });
    const unbind = (id: string, more = {}) => {
      const query = new URLSearchParams({ ca_id: body.id, common_name: 'ä/ b', ...more });
      return mine.call('DELETE', `/devices/${id}/certificates?${query}`);
    };
    await bind(one.device_id);
    const missing = await unbind(two.device_id);
    expect([missing.status, missing.body.detail]).toEqual([404, 'The common name is not bound to this device.']);
    expect((await unbind(one.device_id, { common_name: 'b' })).status).toBe(404);
    expect((await unbind(one.device_id)).status).toBe(204);
    expect((await unbind(one.device_id)).status).toBe(404);
    expect((await mine.call('GET', `/devices/${one.device_id}/certificates`)).body.subjects).toEqual([]);
    expect((await bind(two.device_id)).status).toBe(201);
    const { entries } = (await mine.call('GET', `/audit?subject=device:${one.device_id}&action=unbindCertificate`))
      .body;
    expect(entries.filter(({ outcome }: { outcome: string }) => outcome === 'done')).toMatchObject([
      { by: mine.userId },
    ]);
  });
});
