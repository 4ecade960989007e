import { generateKeyPairSync } from 'node:crypto';
import { v7 } from 'uuid';
import { rawPublicKey } from '../../src/protocol/firmware-signature.ts';
import type { Row } from './endpoint.ts';
import type { World } from './endpoint-fixtures.ts';

const SIGNING = '/firmware/signing';

/** Ids of the keys that `addKey` made, in order: the test clock gives many the same time. */
const madeKeys = new WeakMap<World, string[]>();

/** Ends the requirement of signatures, which registering a key begins, and removes all keys but the newest of `addKey`. */
async function withoutSigning(world: World): Promise<void> {
  const { body } = await world.call('PATCH', SIGNING, { signature_required: false });
  const newest = madeKeys.get(world)?.slice(-3) ?? [];
  for (const { key_id } of body.signing.keys)
    if (!newest.includes(key_id)) await world.call('DELETE', `${SIGNING}/keys/${key_id}`);
}

async function addKey(world: World, body: object): Promise<string> {
  const { key_id = '' } = await world.made('POST', `${SIGNING}/keys`, body);
  madeKeys.set(world, [...(madeKeys.get(world) ?? []), key_id]);
  return key_id;
}

const newPublicKey = (): string => rawPublicKey(generateKeyPairSync('ed25519').publicKey);

const octets = { 'content-type': 'application/octet-stream' };

// Specification §4, firmware endpoints; contract §6.
export const firmwareRows: readonly Row[] = [
  {
    ...{ method: 'POST', path: '/firmware/check', role: 'user', scope: 'read:firmware', status: 200, reads: true },
    request: async (world) => ({
      path: '/firmware/check',
      body: { device_type: 'smart_light', current_version: '1.0.0', device_id: await world.device() },
    }),
    foreign: 'body',
    refusals: {
      VALIDATION_FAILED: () => ({
        path: '/firmware/check',
        body: { device_type: 'smart_light', current_version: '' },
      }),
    },
  },
  {
    ...{ method: 'POST', path: '/firmware/release', role: 'admin', scope: 'write:firmware', status: 201 },
    request: () => ({
      path: '/firmware/release',
      body: { device_type: 'smart_light', version: `2.0.0-${v7().replaceAll('-', '')}a`, notes: 'Smoother dimming' },
    }),
    refusals: {
      VALIDATION_FAILED: () => ({
        path: '/firmware/release',
        body: { device_type: 'smart_light', version: '3.0.0', url: 'https://example.com/firmware.bin' },
      }),
      CONFLICT: async (world) => {
        const body = { device_type: 'smart_plug', version: '9.9.9' };
        await world.call('POST', '/firmware/release', body);
        return { path: '/firmware/release', body };
      },
    },
  },
  {
    ...{ method: 'GET', path: '/firmware', role: 'viewer', scope: 'read:firmware', status: 200 },
    request: () => ({ path: '/firmware' }),
  },
  {
    ...{ method: 'GET', path: '/firmware/{id}', role: 'viewer', scope: 'read:firmware', status: 200 },
    request: async (world) => ({ path: `/firmware/${(await world.draft()).id}` }),
  },
  {
    ...{ method: 'POST', path: '/firmware/{id}/release', role: 'admin', scope: 'write:firmware', status: 200 },
    request: async (world) => {
      await withoutSigning(world);
      return { path: `/firmware/${(await world.draft('with artifact')).id}/release`, body: { rollout_percent: 25 } };
    },
    refusals: {
      FIRMWARE_SIGNATURE_REQUIRED: async (world) => {
        await world.made('PATCH', SIGNING, { signature_required: true });
        return { path: `/firmware/${(await world.draft('with artifact')).id}/release`, body: {} };
      },
      FIRMWARE_SIGNATURE_INVALID: async (world) => ({
        path: `/firmware/${(await world.draft('with artifact')).id}/release`,
        body: { signature: 'A'.repeat(86) },
      }),
      ILLEGAL_TRANSITION: async (world) => ({ path: `/firmware/${(await world.draft()).id}/release`, body: {} }),
      VALIDATION_FAILED: async (world) => ({
        path: `/firmware/${(await world.draft()).id}/release`,
        body: { rollout_percent: 101 },
      }),
    },
  },
  {
    ...{ method: 'POST', path: '/firmware/{id}/withdraw', role: 'admin', scope: 'write:firmware', status: 200 },
    request: async (world) => ({ path: `/firmware/${(await world.draft('with artifact')).id}/withdraw` }),
  },
  {
    ...{ method: 'PUT', path: '/firmware/{id}/artifact', role: 'admin', scope: 'write:firmware', status: 200 },
    bytes: true,
    request: async (world) => ({
      path: `/firmware/${(await world.draft()).id}/artifact`,
      body: Buffer.from('firmware'),
      headers: octets,
    }),
    refusals: {
      ILLEGAL_TRANSITION: async (world) => {
        await withoutSigning(world);
        const { id } = await world.draft('with artifact');
        await world.made('POST', `/firmware/${id}/release`, {});
        return { path: `/firmware/${id}/artifact`, body: Buffer.from('firmware'), headers: octets };
      },
      UNSUPPORTED_MEDIA_TYPE: async (world) => ({ path: `/firmware/${(await world.draft()).id}/artifact`, body: {} }),
    },
  },
  {
    ...{ method: 'GET', path: '/firmware/{id}/artifact', role: 'open', scope: null, status: 200 },
    request: async (world) => {
      const { url } = await world.draft('with artifact');
      const { pathname, search } = new URL(url);
      return { path: pathname.replace('/v1', '') + search };
    },
    refusals: {
      FORBIDDEN: async (world) => ({
        path: `/firmware/${(await world.draft('with artifact')).id}/artifact?expires=1&signature=x`,
      }),
      VALIDATION_FAILED: async (world) => ({ path: `/firmware/${(await world.draft('with artifact')).id}/artifact` }),
    },
  },
  {
    ...{ method: 'GET', path: '/firmware/signing', role: 'viewer', scope: 'read:firmware', status: 200 },
    request: () => ({ path: SIGNING }),
  },
  {
    ...{
      method: 'PATCH',
      path: '/firmware/signing',
      role: 'admin',
      scope: 'write:firmware',
      status: 200,
      person: true,
    },
    request: () => ({ path: SIGNING, body: { signature_required: false } }),
    refusals: { VALIDATION_FAILED: () => ({ path: SIGNING, body: { signature_required: 'no' } }) },
  },
  {
    ...{ method: 'POST', path: '/firmware/signing/keys', role: 'admin', scope: 'write:firmware', status: 201 },
    person: true,
    request: async (world) => {
      await withoutSigning(world);
      return { path: `${SIGNING}/keys`, body: { public_key: newPublicKey(), name: 'Release key' } };
    },
    refusals: {
      VALIDATION_FAILED: () => ({ path: `${SIGNING}/keys`, body: { public_key: 'A'.repeat(43), name: 'Weak' } }),
      CONFLICT: async (world) => {
        const body = { public_key: newPublicKey(), name: 'Release key' };
        await withoutSigning(world);
        await addKey(world, body);
        return { path: `${SIGNING}/keys`, body };
      },
    },
  },
  {
    ...{ method: 'DELETE', path: '/firmware/signing/keys/{key_id}', role: 'admin', scope: 'write:firmware' },
    ...{ status: 204, person: true },
    request: async (world) => {
      await withoutSigning(world);
      const body = { public_key: newPublicKey(), name: 'Release key' };
      return { path: `${SIGNING}/keys/${await addKey(world, body)}` };
    },
  },
];
