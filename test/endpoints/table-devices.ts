import { v4 } from 'uuid';
import type { Row } from './endpoint.ts';

const light = { category: 'light', capabilities: [{ action: 'turn_on' }, { action: 'turn_off' }] };

// Specification §4, device, command and manifest endpoints; contract §4, §5 and §6.
/** Of the test, whose clock starts at the current time. */
const yesterday = (): string => new Date(Date.now() - 86_400_000).toISOString();

export const deviceRows: readonly Row[] = [
  {
    ...{ method: 'POST', path: '/device/register', role: 'admin', scope: 'write:devices', status: 201 },
    foreign: 'body',
    request: ({ homeId }) => ({ path: '/device/register', body: { device_type: 'smart_light', home_id: homeId } }),
    refusals: {
      VALIDATION_FAILED: ({ homeId }) => ({ path: '/device/register', body: { home_id: homeId } }),
      NOT_FOUND: () => ({ path: '/device/register', body: { device_type: 'smart_light', home_id: v4() } }),
    },
  },
  {
    ...{ method: 'GET', path: '/devices', role: 'user', scope: 'read:devices', status: 200 },
    request: () => ({ path: '/devices' }),
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/devices?limit=201' }),
    },
  },
  {
    ...{ method: 'GET', path: '/tags', role: 'user', scope: 'read:devices', status: 200 },
    request: () => ({ path: '/tags' }),
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/tags?limit=201' }),
    },
  },
  {
    ...{ method: 'GET', path: '/devices/{id}', role: 'user', scope: 'read:devices', status: 200 },
    request: async (world) => ({ path: `/devices/${await world.device()}` }),
  },
  {
    ...{ method: 'GET', path: '/devices/{id}/activity', role: 'user', scope: 'read:devices', status: 200 },
    request: async (world) => ({ path: `/devices/${await world.device()}/activity` }),
  },
  {
    ...{ method: 'GET', path: '/devices/{id}/history', role: 'user', scope: 'read:history', status: 200 },
    request: async (world) => ({ path: `/devices/${await world.device()}/history?property=level&step=1h` }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/devices/${await world.device()}/history?property=level&step=1x` }),
    },
  },
  {
    ...{ method: 'POST', path: '/devices/{id}/history', role: 'admin', scope: 'write:devices', status: 200 },
    request: async (world) => ({
      path: `/devices/${await world.device()}/history`,
      body: { reports: [{ at: yesterday(), state: { level: 1 } }] },
    }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/devices/${await world.device()}/history`, body: { reports: [] } }),
      DEVICE_REVOKED: async (world) => ({
        path: `/devices/${await world.revoked()}/history`,
        body: { reports: [{ at: yesterday(), state: { level: 1 } }] },
      }),
    },
  },
  {
    ...{ method: 'GET', path: '/devices/{id}/history/export', role: 'user', scope: 'read:history', status: 200 },
    request: async (world) => ({ path: `/devices/${await world.device()}/history/export?property=level&format=csv` }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/devices/${await world.device()}/history/export?format=csv` }),
    },
  },
  {
    ...{ method: 'POST', path: '/history/query', role: 'user', scope: 'read:history', status: 200, reads: true },
    foreign: 'body',
    request: async (world) => ({
      path: '/history/query',
      body: { series: [{ device_id: await world.device(), property: 'level' }], step: '1h', max_series: 1 },
    }),
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/history/query', body: { devices: {}, properties: ['level'] } }),
      NOT_FOUND: () => ({ path: '/history/query', body: { series: [{ device_id: v4(), property: 'level' }] } }),
    },
  },
  {
    ...{ method: 'GET', path: '/devices/{id}/timeline', role: 'user', scope: 'read:devices', status: 200 },
    request: async (world) => ({ path: `/devices/${await world.device()}/timeline` }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/devices/${await world.device()}/timeline?kind=memory` }),
    },
  },
  {
    ...{ method: 'GET', path: '/devices/{id}/why', role: 'user', scope: 'read:history', status: 200 },
    request: async (world) => ({ path: `/devices/${await world.device()}/why?property=level` }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/devices/${await world.device()}/why` }),
    },
  },
  {
    ...{ method: 'PATCH', path: '/devices/{id}', role: 'admin', scope: 'write:devices', status: 200 },
    request: async (world) => ({
      path: `/devices/${await world.device()}`,
      body: { name: 'Lamp', metadata: { a: 1 } },
    }),
    refusals: {
      NOT_FOUND: async (world) => ({ path: `/devices/${await world.device()}`, body: { room_id: v4() } }),
      VALIDATION_FAILED: async (world) => {
        const room = await world.made('POST', `/homes/${await world.home()}/rooms`, { name: 'Elsewhere' });
        return { path: `/devices/${await world.device()}`, body: { room_id: room.id } };
      },
    },
  },
  {
    ...{ method: 'DELETE', path: '/devices/{id}', role: 'admin', scope: 'write:devices', status: 204 },
    request: async (world) => ({ path: `/devices/${await world.revoked()}` }),
    refusals: { ILLEGAL_TRANSITION: async (world) => ({ path: `/devices/${await world.device()}` }) },
  },
  {
    ...{ method: 'POST', path: '/device/{id}/rotate-secret', role: 'admin', scope: 'write:devices', status: 200 },
    request: async (world) => ({ path: `/device/${await world.device()}/rotate-secret`, body: {} }),
    refusals: {
      DEVICE_REVOKED: async (world) => ({ path: `/device/${await world.revoked()}/rotate-secret`, body: {} }),
    },
  },
  {
    ...{ method: 'GET', path: '/device/{id}/key-history', role: 'admin', scope: 'read:devices', status: 200 },
    request: async (world) => ({ path: `/device/${await world.device()}/key-history` }),
  },
  {
    ...{ method: 'POST', path: '/device/{id}/revoke', role: 'admin', scope: 'write:devices', status: 200 },
    goesOn: true,
    request: async (world) => ({ path: `/device/${await world.device()}/revoke`, body: {} }),
  },
  {
    ...{ method: 'POST', path: '/device/{id}/reinstate', role: 'admin', scope: 'write:devices', status: 200 },
    request: async (world) => ({ path: `/device/${await world.revoked()}/reinstate`, body: { reason: 'Found again' } }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/device/${await world.revoked()}/reinstate`, body: {} }),
      ILLEGAL_TRANSITION: async (world) => ({
        path: `/device/${await world.device()}/reinstate`,
        body: { reason: 'Why not' },
      }),
    },
  },
  {
    ...{ method: 'POST', path: '/device/{deviceId}/command', role: 'user', scope: 'execute:commands', status: 202 },
    request: async (world) => ({ path: `/device/${await world.device()}/command`, body: { action: 'turn_on' } }),
    refusals: {
      DRY_RUN_REQUIRED: async (world) => ({
        path: `/device/${await world.device()}/command`,
        body: { action: 'reboot' },
      }),
      RESTRICTED_ACTION: async (world) => ({
        path: `/device/${await world.device()}/command`,
        body: { action: 'rotate_key' },
      }),
      ACTION_NOT_IN_MANIFEST: async (world) => ({
        path: `/device/${await world.device()}/command`,
        body: { action: 'fly' },
      }),
      MANIFEST_NOT_FOUND: async (world) => ({
        path: `/device/${await world.device('thing')}/command`,
        body: { action: 'turn_on' },
      }),
      DEVICE_REVOKED: async (world) => ({
        path: `/device/${await world.revoked()}/command`,
        body: { action: 'turn_on' },
      }),
      PARAMS_INVALID: async (world) => ({
        path: `/device/${await world.device()}/command`,
        body: { action: 'set_brightness', params: { level: 101 } },
      }),
      VALIDATION_FAILED: async (world) => ({ path: `/device/${await world.device()}/command`, body: {} }),
    },
  },
  {
    ...{ method: 'POST', path: '/device/{deviceId}/command/confirm', role: 'user', scope: 'execute:commands' },
    status: 202,
    request: async (world) => {
      const { deviceId, token } = await world.awaiting();
      return { path: `/device/${deviceId}/command/confirm`, body: { dry_run_token: token } };
    },
    refusals: {
      CONFIRMATION_FAILED: async (world) => {
        const { deviceId } = await world.awaiting();
        return { path: `/device/${deviceId}/command/confirm`, body: { token: v4() } };
      },
      VALIDATION_FAILED: async (world) => {
        const { deviceId } = await world.awaiting();
        return { path: `/device/${deviceId}/command/confirm`, body: {} };
      },
    },
  },
  {
    ...{ method: 'POST', path: '/devices/command', role: 'user', scope: 'execute:commands', status: 200 },
    foreign: 'entry',
    request: async (world) => ({
      path: '/devices/command',
      body: { device_ids: [await world.device()], action: 'turn_on' },
    }),
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/devices/command', body: { device_ids: [], action: 'turn_on' } }),
    },
  },
  {
    ...{ method: 'POST', path: '/rooms/{roomId}/command', role: 'user', scope: 'execute:commands', status: 200 },
    request: async (world) => ({
      path: `/rooms/${await world.room()}/command`,
      body: { action: 'turn_on', capability: 'light' },
    }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/rooms/${await world.room()}/command`, body: {} }),
    },
  },
  {
    ...{ method: 'POST', path: '/groups/{groupSlug}/command', role: 'user', scope: 'execute:commands', status: 200 },
    request: async (world) => ({
      path: `/groups/${await world.group([await world.device()])}/command`,
      body: { action: 'turn_on' },
    }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({ path: `/groups/${await world.group()}/command`, body: {} }),
    },
  },
  {
    ...{ method: 'GET', path: '/device/{deviceId}/commands', role: 'user', scope: 'read:commands', status: 200 },
    request: async (world) => ({ path: `/device/${(await world.awaiting()).deviceId}/commands` }),
  },
  {
    ...{ method: 'GET', path: '/commands', role: 'user', scope: 'read:commands', status: 200 },
    request: async () => ({ path: '/commands' }),
  },
  {
    ...{ method: 'GET', path: '/commands/{id}', role: 'user', scope: 'read:commands', status: 200 },
    request: async (world) => ({ path: `/commands/${(await world.awaiting()).commandId}` }),
  },
  {
    ...{ method: 'POST', path: '/commands/{id}/cancel', role: 'user', scope: 'execute:commands', status: 200 },
    goesOn: true,
    request: async (world) => ({ path: `/commands/${(await world.awaiting()).commandId}/cancel` }),
    refusals: {
      ILLEGAL_TRANSITION: async (world) => {
        const { commandId } = await world.awaiting();
        await world.made('POST', `/commands/${commandId}/cancel`, {});
        return { path: `/commands/${commandId}/cancel` };
      },
    },
  },
  {
    ...{ method: 'GET', path: '/manifest/capabilities', role: 'viewer', scope: 'read:manifests', status: 200 },
    request: () => ({ path: '/manifest/capabilities' }),
  },
  {
    ...{ method: 'GET', path: '/manifest/types', role: 'viewer', scope: 'read:manifests', status: 200 },
    request: () => ({ path: '/manifest/types' }),
  },
  {
    ...{ method: 'GET', path: '/devices/{deviceId}/manifest', role: 'viewer', scope: 'read:manifests', status: 200 },
    request: async (world) => ({ path: `/devices/${await world.device()}/manifest` }),
  },
  {
    ...{ method: 'POST', path: '/devices/{deviceId}/manifest', role: 'admin', scope: 'write:manifests', status: 201 },
    person: true,
    request: async (world) => ({ path: `/devices/${await world.device('thing')}/manifest`, body: light }),
    refusals: {
      CONFLICT: async (world) => {
        const path = `/devices/${await world.device()}/manifest`;
        await world.made('POST', path, light);
        return { path, body: light };
      },
      VALIDATION_FAILED: async (world) => ({
        path: `/devices/${await world.device()}/manifest`,
        body: { category: 'light', capabilities: [{ action: 'revoke' }] },
      }),
    },
  },
  {
    ...{ method: 'PUT', path: '/devices/{deviceId}/manifest', role: 'admin', scope: 'write:manifests', status: 200 },
    person: true,
    request: async (world) => {
      const path = `/devices/${await world.device()}/manifest`;
      const { version } = (await world.made('GET', path, undefined)) as unknown as { version: number };
      return { path, body: { ...light, version } };
    },
    refusals: {
      CONFLICT: async (world) => ({
        path: `/devices/${await world.device()}/manifest`,
        body: { ...light, version: 99 },
      }),
      DRY_RUN_REQUIRED: async (world) => {
        const path = `/devices/${await world.device('thing')}/manifest`;
        await world.made('POST', path, { capabilities: [{ action: 'open_gate', safetyClass: 'CRITICAL' }] });
        return { path, body: { version: 1, capabilities: [{ action: 'open_gate' }] } };
      },
    },
  },
];
