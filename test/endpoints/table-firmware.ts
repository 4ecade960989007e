import { v7 } from 'uuid';
import type { Row } from './endpoint.ts';

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
        body: { device_type: 'smart_light', current_version: '1' },
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
    request: async (world) => ({
      path: `/firmware/${(await world.draft('with artifact')).id}/release`,
      body: { rollout_percent: 25 },
    }),
    refusals: {
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
];
