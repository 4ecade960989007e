import { beforeEach, describe, expect, it } from 'vitest';
import { around, issue, makeAuthority } from '../../../support/certificates.ts';
import { queryGraphql } from '../../../support/graphql.ts';
import type { CallResult } from '../../../support/http-service.ts';
import { mine, service, withTwoTenants } from '../two-tenants.ts';

// A certificate signs in as a device, as a new key does, so binding one is confirmed like a new key.

withTwoTenants();

let device: string;
let caId: string;
beforeEach(async () => {
  device = (await mine.register({ device_type: 'lock', name: 'Front door' })).device_id;
  const authority = makeAuthority(around(service.clock.now()));
  const { verification_code } = (await mine.call('POST', '/cas/verifications')).body;
  const registered = await mine.call('POST', '/cas', {
    ...{ name: 'Factory', certificate: authority.pem },
    verification_certificate: issue(authority, verification_code).pem,
  });
  caId = registered.body.id;
  expect(registered.status).toBe(201);
});

const policy = (confirm_by: string) => mine.call('PATCH', '/tenant/policy', { confirm_by });
const path = () => `/devices/${device}/certificates`;
const bind = (sent: object = {}, common_name = 'lock-1') =>
  mine.call('POST', path(), { ca_id: caId, common_name }, sent);
const approve = (id: string, sent: object = {}) => mine.call('POST', `/change-requests/${id}/approve`, undefined, sent);
const show = async (id: string) => (await mine.call('GET', `/change-requests/${id}`)).body.change;
const subjects = async () => (await mine.call('GET', path())).body.subjects;
const coded = ({ status, body }: CallResult) => [status, body.code];
const admin = () => ({ token: mine.tokens.admin });

describe('activating a CA', () => {
  const set = (body: object) => mine.call('PATCH', `/cas/${caId}`, body);
  const statusOf = async () => (await mine.call('GET', `/cas/${caId}`)).body.ca.status;

  it.each(['requester', 'person'])('takes effect at once under %s', async (confirm_by) => {
    await policy(confirm_by);
    expect((await set({ status: 'inactive' })).body.ca.status).toBe('inactive');
    expect((await set({ status: 'active' })).body.ca.status).toBe('active');
  });

  it('waits for another user under another_principal if the CA is inactive', async () => {
    await policy('another_principal');
    expect((await set({ status: 'active', name: 'Plant' })).status).toBe(200);
    expect((await set({ status: 'inactive' })).status).toBe(200);
    const rule = { home_id: mine.homeId, room_id: null, device_type: 'lock', subject_pattern: 'l-*', max_devices: 5 };
    const asked = await set({ status: 'active', name: 'Works', registration: rule });
    expect(coded(asked)).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect(asked.body.preview).toEqual({
      weaker: ["Devices sign in with the certificates of the CA 'Plant' again, except revoked ones."],
      changes: {
        name: { from: 'Plant', to: 'Works' },
        status: { from: 'inactive', to: 'active' },
        registration: { from: null, to: rule },
      },
    });
    expect(coded(await approve(asked.body.change_id))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect(await statusOf()).toBe('inactive');
    // Everything else about an inactive CA takes effect at once.
    expect((await set({ registration: rule })).status).toBe(200);
    const again = await approve(asked.body.change_id, admin());
    expect([...coded(again), Object.keys(again.body.preview.changes).sort()]).toEqual([
      ...[409, 'DRY_RUN_REQUIRED'],
      ['name', 'status'],
    ]);
    service.clock.advance(1_000);
    expect((await approve(again.body.change_id, admin())).body.result.ca).toMatchObject({
      ...{ status: 'active', name: 'Works' },
    });
    expect(await statusOf()).toBe('active');
  });
});

describe('binding a common name', () => {
  it.each(['requester', 'person'])('takes effect at once under %s', async (confirm_by) => {
    await policy(confirm_by);
    expect((await bind()).status).toBe(201);
    expect(await subjects()).toMatchObject([{ ca_id: caId, common_name: 'lock-1' }]);
  });

  it('waits for another user under another_principal, and does not take effect before', async () => {
    await policy('another_principal');
    const asked = await bind();
    expect(coded(asked)).toEqual([409, 'DRY_RUN_REQUIRED']);
    expect(asked.body.preview).toEqual({
      weaker: ["Certificates of the CA 'Factory' with the common name 'lock-1' sign in as the device 'Front door'."],
      changes: { certificate: { from: null, to: { ca_id: caId, common_name: 'lock-1' } } },
      device: { name: 'Front door', home_id: mine.homeId, room_id: null },
    });
    expect(await show(asked.body.change_id)).toMatchObject({
      ...{ operation: 'bindCertificate', subject: `device:${device}`, status: 'awaiting_confirmation' },
    });
    expect(coded(await approve(asked.body.change_id))).toEqual([403, 'CONFIRMATION_FAILED']);
    expect(await subjects()).toEqual([]);
    const applied = await approve(asked.body.change_id, admin());
    expect([applied.status, applied.body.result.status]).toEqual([200, 'bound']);
    expect(await subjects()).toMatchObject([{ ca_id: caId, common_name: 'lock-1' }]);
    // It is bound already, so that nothing has to be confirmed.
    expect((await bind()).status).toBe(201);
    const { entries } = (await mine.call('GET', `/audit?subject=device:${device}&action=bindCertificate`)).body;
    expect(entries).toHaveLength(2);
  });

  it('waits over GraphQL as well', async () => {
    await policy('another_principal');
    const input = `input: { id: "${device}", caId: "${caId}", commonName: "lock-1" }`;
    const text = `mutation { bindCertificate(${input}) {
      __typename ... on ChangeDryRunRequired { changeId preview { weaker } } } }`;
    const { data } = (await queryGraphql(service, text, { token: mine.tokens.owner })).body;
    expect(data.bindCertificate.__typename).toBe('ChangeDryRunRequired');
    expect(await subjects()).toEqual([]);
    expect((await approve(data.bindCertificate.changeId, admin())).status).toBe(200);
    expect(await subjects()).toHaveLength(1);
  });

  it('is previewed again under another name of the device, and outdated where it has become impossible', async () => {
    await policy('another_principal');
    const asked = await bind();
    await mine.call('PATCH', `/devices/${device}`, { name: 'Shed' });
    const again = await approve(asked.body.change_id, admin());
    expect([...coded(again), again.body.preview.device.name]).toEqual([409, 'DRY_RUN_REQUIRED', 'Shed']);
    expect(await subjects()).toEqual([]);
    await mine.call('DELETE', `/cas/${caId}`);
    expect(coded(await approve(again.body.change_id, admin()))).toEqual([404, 'NOT_FOUND']);
    expect((await show(again.body.change_id)).status).toBe('outdated');
  });
});
