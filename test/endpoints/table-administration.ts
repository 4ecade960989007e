import { v4 } from 'uuid';
import { firstNode, type MemoryNodes, secondNode } from '../support/memory-nodes.ts';
import type { Row } from './endpoint.ts';
import type { World } from './endpoint-fixtures.ts';

const platform = { role: 'platform', scope: null } as const;

// Specification §4, administrative endpoints; contract §3, §5 and §6.
export const administrationRows: readonly Row[] = [
  {
    ...{ method: 'GET', path: '/tenant/policy', role: 'admin', scope: 'read:tenant', status: 200 },
    request: () => ({ path: '/tenant/policy' }),
  },
  {
    ...{ method: 'PATCH', path: '/tenant/policy', role: 'admin', scope: 'write:tenant', status: 200, person: true },
    request: () => ({ path: '/tenant/policy', body: { confirm_ttl_s: 300 } }),
    refusals: { VALIDATION_FAILED: () => ({ path: '/tenant/policy', body: { confirm_ttl_s: 59 } }) },
  },
  {
    ...{ method: 'GET', path: '/confirmations', role: 'user', scope: 'read:commands', status: 200 },
    request: async (world) => {
      await world.awaiting();
      return { path: '/confirmations' };
    },
  },
  {
    ...{ method: 'POST', path: '/confirmations/{command_id}/approve', role: 'user', scope: 'execute:commands' },
    status: 202,
    request: async (world) => ({ path: `/confirmations/${(await world.awaiting()).commandId}/approve` }),
  },
  {
    ...{ method: 'POST', path: '/confirmations/{command_id}/refuse', role: 'user', scope: 'execute:commands' },
    ...{ status: 200, goesOn: true },
    request: async (world) => ({
      path: `/confirmations/${(await world.awaiting()).commandId}/refuse`,
      body: { reason: 'Not now' },
    }),
  },
  {
    ...{ method: 'GET', path: '/change-requests', role: 'admin', scope: 'read:commands', status: 200 },
    alsoScope: 'read:manifests',
    request: async (world) => {
      await world.waitingChange();
      return { path: '/change-requests?waiting=true' };
    },
    refusals: { VALIDATION_FAILED: () => ({ path: '/change-requests?waiting=maybe' }) },
  },
  {
    ...{ method: 'GET', path: '/change-requests/{change_id}', role: 'admin', scope: 'read:commands', status: 200 },
    alsoScope: 'read:manifests',
    request: async (world) => ({ path: `/change-requests/${(await world.waitingChange()).changeId}` }),
  },
  {
    ...{ method: 'POST', path: '/change-requests/{change_id}/confirm', role: 'admin', scope: 'execute:commands' },
    ...{ status: 200, person: true, confirmedScope: 'write:manifests' },
    request: async (world) => {
      const { changeId, token } = await world.waitingChange();
      return { path: `/change-requests/${changeId}/confirm`, body: { dry_run_token: token } };
    },
    refusals: {
      CONFIRMATION_FAILED: async (world) => {
        const { changeId } = await world.waitingChange();
        return { path: `/change-requests/${changeId}/confirm`, body: { dry_run_token: v4() } };
      },
      VALIDATION_FAILED: async (world) => ({
        path: `/change-requests/${(await world.waitingChange()).changeId}/confirm`,
        body: {},
      }),
    },
  },
  {
    ...{ method: 'POST', path: '/change-requests/{change_id}/approve', role: 'admin', scope: 'execute:commands' },
    ...{ status: 200, person: true, confirmedScope: 'write:manifests' },
    request: async (world) => ({ path: `/change-requests/${(await world.waitingChange()).changeId}/approve` }),
    refusals: {
      ILLEGAL_TRANSITION: async (world) => {
        const path = `/change-requests/${(await world.waitingChange()).changeId}`;
        await world.made('POST', `${path}/refuse`, {});
        return { path: `${path}/approve` };
      },
    },
  },
  {
    ...{ method: 'POST', path: '/change-requests/{change_id}/refuse', role: 'admin', scope: 'execute:commands' },
    ...{ status: 200, person: true, confirmedScope: 'write:manifests', goesOn: true },
    request: async (world) => ({
      path: `/change-requests/${(await world.waitingChange()).changeId}/refuse`,
      body: { reason: 'Not now' },
    }),
  },
  {
    ...{ ...platform, method: 'GET', path: '/admin/tenants', status: 200 },
    request: () => ({ path: '/admin/tenants' }),
  },
  {
    ...{ ...platform, method: 'POST', path: '/admin/tenants/{id}/suspend', status: 200, goesOn: true },
    request: async (world: World) => ({ path: `/admin/tenants/${await world.tenant()}/suspend` }),
    refusals: { NOT_FOUND: () => ({ path: `/admin/tenants/${v4()}/suspend` }) },
  },
  {
    ...{ ...platform, method: 'POST', path: '/admin/tenants/{id}/resume', status: 200, goesOn: true },
    request: async (world: World) => ({ path: `/admin/tenants/${await world.tenant()}/resume` }),
    refusals: { NOT_FOUND: () => ({ path: `/admin/tenants/${v4()}/resume` }) },
  },
  {
    ...{ ...platform, method: 'POST', path: '/admin/tenants/{id}/tier', status: 200, goesOn: true },
    request: async (world: World) => ({ path: `/admin/tenants/${await world.tenant()}/tier`, body: { tier: 'pro' } }),
    refusals: {
      VALIDATION_FAILED: async (world: World) => ({
        path: `/admin/tenants/${await world.tenant()}/tier`,
        body: { tier: 'gold' },
      }),
    },
  },
  {
    ...{ ...platform, method: 'GET', path: '/admin/nodes', status: 200 },
    request: () => ({ path: '/admin/nodes?shards=true' }),
  },
  {
    ...{ ...platform, method: 'POST', path: '/admin/nodes/{id}/drain', status: 200, goesOn: true },
    request: () => ({ path: `/admin/nodes/${firstNode}/drain` }),
    refusals: {
      NOT_FOUND: () => ({ path: `/admin/nodes/${v4()}/drain` }),
      CONFLICT: async ({ service }: World) => {
        await service.services.nodes.drain(firstNode);
        return { path: `/admin/nodes/${secondNode}/drain` };
      },
    },
  },
  {
    ...{ ...platform, method: 'POST', path: '/admin/nodes/{id}/resume', status: 200, goesOn: true },
    request: () => ({ path: `/admin/nodes/${firstNode}/resume` }),
    refusals: { NOT_FOUND: () => ({ path: `/admin/nodes/${v4()}/resume` }) },
  },
  {
    ...{ ...platform, method: 'POST', path: '/admin/rekey', status: 200, goesOn: true },
    request: () => ({ path: '/admin/rekey', body: { dry_run: true } }),
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/admin/rekey', body: { after: 'the beginning' } }),
      CONFLICT: ({ service }: World) => {
        (service.services.nodes as MemoryNodes).reportKeys(secondNode, null);
        return { path: '/admin/rekey', body: {} };
      },
    },
  },
  {
    ...{ ...platform, method: 'GET', path: '/admin/flags', status: 200 },
    request: () => ({ path: '/admin/flags' }),
  },
  {
    ...{ ...platform, method: 'POST', path: '/admin/flags/{flag}', status: 200, goesOn: true },
    request: () => ({ path: '/admin/flags/cognition_disabled', body: { state: false } }),
    refusals: {
      NOT_FOUND: () => ({ path: '/admin/flags/world_peace', body: { state: true } }),
      VALIDATION_FAILED: () => ({ path: '/admin/flags/maintenance_mode', body: {} }),
    },
  },
];
