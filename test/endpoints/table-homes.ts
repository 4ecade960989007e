import { v4 } from 'uuid';
import type { Row } from './endpoint.ts';

// Specification §4, home, room and group endpoints; contract §6.
export const placeRows: readonly Row[] = [
  {
    ...{ method: 'POST', path: '/homes', role: 'admin', scope: 'write:homes', status: 201 },
    request: () => ({ path: '/homes', body: { home_name: 'Cabin', timezone: 'Europe/Berlin' } }),
    refusals: { VALIDATION_FAILED: () => ({ path: '/homes', body: { home_name: 'Cabin', timezone: 'Mars/Olympus' } }) },
  },
  {
    ...{ method: 'GET', path: '/homes', role: 'viewer', scope: 'read:homes', status: 200 },
    request: () => ({ path: '/homes' }),
    refusals: { VALIDATION_FAILED: () => ({ path: '/homes?cursor=junk' }) },
  },
  {
    ...{ method: 'GET', path: '/homes/{homeId}', role: 'viewer', scope: 'read:homes', status: 200 },
    request: async (world) => ({ path: `/homes/${await world.home()}` }),
  },
  {
    ...{ method: 'PATCH', path: '/homes/{homeId}', role: 'admin', scope: 'write:homes', status: 200 },
    request: async (world) => ({ path: `/homes/${await world.home()}`, body: { home_name: 'Chalet' } }),
  },
  {
    ...{ method: 'GET', path: '/homes/{homeId}/timeline', role: 'user', scope: 'read:devices', status: 200 },
    alsoScope: 'read:homes',
    request: async (world) => ({ path: `/homes/${await world.home()}/timeline` }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/homes/${await world.home()}/timeline?from=yesterday` }),
    },
  },
  {
    ...{ method: 'DELETE', path: '/homes/{homeId}', role: 'admin', scope: 'write:homes', status: 204 },
    request: async (world) => ({ path: `/homes/${await world.home()}` }),
    refusals: {
      CONFLICT: async (world) => {
        const id = await world.home();
        await world.made('POST', '/device/register', { device_type: 'smart_light', home_id: id });
        return { path: `/homes/${id}` };
      },
    },
  },
  {
    ...{ method: 'POST', path: '/homes/{homeId}/rooms', role: 'admin', scope: 'write:homes', status: 201 },
    request: async (world) => ({ path: `/homes/${await world.home()}/rooms`, body: { name: 'Attic' } }),
  },
  {
    ...{ method: 'GET', path: '/homes/{homeId}/rooms', role: 'viewer', scope: 'read:homes', status: 200 },
    request: async (world) => ({ path: `/homes/${await world.home()}/rooms` }),
  },
  {
    ...{ method: 'GET', path: '/homes/{homeId}/rooms/{roomId}', role: 'viewer', scope: 'read:homes', status: 200 },
    request: async (world) => ({ path: `/homes/${world.homeId}/rooms/${await world.room()}` }),
  },
  {
    ...{
      method: 'GET',
      path: '/homes/{homeId}/rooms/{roomId}/timeline',
      role: 'user',
      scope: 'read:devices',
      status: 200,
    },
    alsoScope: 'read:homes',
    request: async (world) => ({ path: `/homes/${world.homeId}/rooms/${await world.room()}/timeline` }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({
        path: `/homes/${world.homeId}/rooms/${await world.room()}/timeline?from=yesterday`,
      }),
    },
  },
  {
    ...{ method: 'PATCH', path: '/homes/{homeId}/rooms/{roomId}', role: 'admin', scope: 'write:homes', status: 200 },
    request: async (world) => ({
      path: `/homes/${world.homeId}/rooms/${await world.room()}`,
      body: { name: 'Larder' },
    }),
  },
  {
    ...{ method: 'DELETE', path: '/homes/{homeId}/rooms/{roomId}', role: 'admin', scope: 'write:homes', status: 204 },
    request: async (world) => ({ path: `/homes/${world.homeId}/rooms/${await world.room()}` }),
  },
  {
    ...{ method: 'GET', path: '/groups', role: 'user', scope: 'read:groups', status: 200 },
    request: () => ({ path: '/groups' }),
  },
  {
    ...{ method: 'POST', path: '/groups', role: 'admin', scope: 'write:groups', status: 201 },
    foreign: 'body',
    request: async (world) => ({
      path: '/groups',
      body: { name: 'Evening', description: 'Lamps', device_ids: [await world.device()] },
    }),
    refusals: {
      NOT_FOUND: () => ({ path: '/groups', body: { name: 'Evening', description: '', device_ids: [v4()] } }),
    },
  },
  {
    ...{ method: 'GET', path: '/groups/{slug}', role: 'user', scope: 'read:groups', status: 200 },
    request: async (world) => ({ path: `/groups/${await world.group()}` }),
  },
  {
    ...{ method: 'PATCH', path: '/groups/{slug}', role: 'admin', scope: 'write:groups', status: 200 },
    request: async (world) => ({ path: `/groups/${await world.group()}`, body: { name: 'Night', description: null } }),
  },
  {
    ...{ method: 'POST', path: '/groups/{slug}/join', role: 'user', scope: 'write:groups', status: 200 },
    request: async (world) => ({
      path: `/groups/${await world.group()}/join`,
      body: { device_id: await world.device() },
    }),
    refusals: {
      NOT_FOUND: async (world) => ({ path: `/groups/${await world.group()}/join`, body: { device_ids: [v4()] } }),
      VALIDATION_FAILED: async (world) => ({ path: `/groups/${await world.group()}/join`, body: {} }),
    },
  },
  {
    ...{ method: 'DELETE', path: '/groups/{slug}/devices/{id}', role: 'admin', scope: 'write:groups', status: 204 },
    request: async (world) => {
      const id = await world.device();
      return { path: `/groups/${await world.group([id])}/devices/${id}` };
    },
  },
  {
    ...{ method: 'DELETE', path: '/groups/{slug}', role: 'admin', scope: 'write:groups', status: 204 },
    request: async (world) => ({ path: `/groups/${await world.group()}` }),
  },
];
