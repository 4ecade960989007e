import { v4 } from 'uuid';
import { issue, makeAuthority, type TestCertificate } from '../support/certificates.ts';
import type { Row } from './endpoint.ts';
import type { World } from './endpoint-fixtures.ts';

/** With one subject, which is the same in the answers of all edges. */
const newAuthority = () => makeAuthority();

/** Ids of the CAs that `newCa` made, in order: the test clock gives many the same time. */
const madeCas = new WeakMap<World, string[]>();

/** Deletes all CAs but the newest of `newCa`, so that the quota is not reached. */
async function withoutCas(world: World): Promise<void> {
  const { body } = await world.call('GET', '/cas');
  const newest = madeCas.get(world)?.slice(-3) ?? [];
  for (const { id } of body.cas) if (!newest.includes(id)) await world.call('DELETE', `/cas/${id}`);
}

async function registration(world: World, authority: TestCertificate = newAuthority()) {
  await withoutCas(world);
  const { verification_code: code = '' } = await world.made('POST', '/cas/verifications', {});
  const proof = issue(authority, code);
  return { name: 'Factory', certificate: authority.pem, verification_certificate: proof.pem };
}

async function newCa(world: World, authority = newAuthority()): Promise<string> {
  const { id = '' } = await world.made('POST', '/cas', await registration(world, authority));
  madeCas.set(world, [...(madeCas.get(world) ?? []), id]);
  return id;
}

// Decision 56.
export const deviceCaRows: readonly Row[] = [
  {
    ...{ method: 'POST', path: '/cas/verifications', role: 'admin', scope: 'write:devices', status: 201, person: true },
    request: () => ({ path: '/cas/verifications', body: {} }),
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/cas/verifications', body: { valid_for_s: 1 } }),
    },
  },
  {
    ...{ method: 'POST', path: '/cas', role: 'admin', scope: 'write:devices', status: 201, person: true },
    foreign: 'body',
    request: async (world) => {
      const rule = { home_id: world.homeId, device_type: 'smart_light' };
      return { path: '/cas', body: { ...(await registration(world)), registration: rule } };
    },
    refusals: {
      VALIDATION_FAILED: async (world) => {
        const authority = newAuthority();
        const body = await registration(world, authority);
        return { path: '/cas', body: { ...body, verification_certificate: issue(authority, 'no code').pem } };
      },
      CONFLICT: async (world) => {
        const authority = newAuthority();
        await newCa(world, authority);
        const { verification_code: code = '' } = await world.made('POST', '/cas/verifications', {});
        // A renewal keeps the subject.
        const other = makeAuthority({ keys: authority.keys, commonName: 'Other' });
        const proof = issue(other, code).pem;
        return { path: '/cas', body: { name: 'Again', certificate: other.pem, verification_certificate: proof } };
      },
      NOT_FOUND: async (world) => {
        const rule = { home_id: v4(), device_type: 'smart_light' };
        return { path: '/cas', body: { ...(await registration(world)), registration: rule } };
      },
    },
  },
  {
    ...{ method: 'GET', path: '/cas', role: 'admin', scope: 'read:devices', status: 200 },
    request: () => ({ path: '/cas' }),
  },
  {
    ...{ method: 'GET', path: '/cas/{id}', role: 'admin', scope: 'read:devices', status: 200 },
    request: async (world) => ({ path: `/cas/${await newCa(world)}` }),
  },
  {
    ...{ method: 'PATCH', path: '/cas/{id}', role: 'admin', scope: 'write:devices', status: 200, person: true },
    goesOn: true,
    request: async (world) => ({ path: `/cas/${await newCa(world)}`, body: { status: 'inactive' } }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/cas/${await newCa(world)}`, body: { status: 'gone' } }),
    },
  },
  {
    ...{ method: 'DELETE', path: '/cas/{id}', role: 'admin', scope: 'write:devices', status: 204, person: true },
    goesOn: true,
    request: async (world) => ({ path: `/cas/${await newCa(world)}` }),
  },
  {
    ...{
      method: 'POST',
      path: '/cas/{id}/revocations',
      role: 'admin',
      scope: 'write:devices',
      status: 200,
      person: true,
    },
    goesOn: true,
    request: async (world) => ({ path: `/cas/${await newCa(world)}/revocations`, body: { serial_number: '4F2A' } }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({
        path: `/cas/${await newCa(world)}/revocations`,
        body: { serial_number: 'first' },
      }),
    },
  },
  {
    ...{ method: 'GET', path: '/devices/{id}/certificates', role: 'admin', scope: 'read:devices', status: 200 },
    request: async (world) => ({ path: `/devices/${await world.device()}/certificates` }),
  },
  {
    ...{ method: 'POST', path: '/devices/{id}/certificates', role: 'admin', scope: 'write:devices', status: 201 },
    ...{ person: true, foreign: 'body' },
    request: async (world) => ({
      path: `/devices/${await world.device()}/certificates`,
      body: { ca_id: await newCa(world), common_name: 'lamp-1' },
    }),
    refusals: {
      NOT_FOUND: async (world) => ({
        path: `/devices/${await world.device()}/certificates`,
        body: { ca_id: v4(), common_name: 'lamp-1' },
      }),
      DEVICE_REVOKED: async (world) => ({
        path: `/devices/${await world.revoked()}/certificates`,
        body: { ca_id: await newCa(world), common_name: 'lamp-1' },
      }),
      CONFLICT: async (world) => {
        const body = { ca_id: await newCa(world), common_name: 'lamp-1' };
        await world.made('POST', `/devices/${await world.device()}/certificates`, body);
        return { path: `/devices/${await world.device()}/certificates`, body };
      },
    },
  },
  {
    ...{ method: 'DELETE', path: '/devices/{id}/certificates', role: 'admin', scope: 'write:devices', status: 204 },
    ...{ person: true, goesOn: true },
    request: async (world) => {
      const [id, caId] = [await world.device(), await newCa(world)];
      await world.made('POST', `/devices/${id}/certificates`, { ca_id: caId, common_name: 'lamp-1' });
      return { path: `/devices/${id}/certificates?ca_id=${caId}&common_name=lamp-1` };
    },
    refusals: {
      NOT_FOUND: async (world) => ({
        path: `/devices/${await world.device()}/certificates?ca_id=${await newCa(world)}&common_name=lamp-1`,
      }),
    },
  },
];
