import { v4 } from 'uuid';
import type { Row } from './endpoint.ts';
import type { World } from './endpoint-fixtures.ts';

const reading = { method: 'GET', role: 'admin', scope: 'read:actors', status: 200 } as const;

async function quarantined(world: World): Promise<string> {
  const id = await world.device();
  await world.service.store.actors.quarantine({ kind: 'device', id }, 'it failed three times');
  return id;
}

// Contract §6, actors and audit.
export const actorRows: readonly Row[] = [
  {
    ...{ ...reading, path: '/actors' },
    request: async (world) => {
      await world.device();
      return { path: '/actors?kind=device&state=active&limit=2' };
    },
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/actors?kind=lamp' }),
      FORBIDDEN: ({ tenantId }) => ({ path: `/actors?tenant_id=${tenantId}` }),
      NOT_FOUND: ({ operator }) => ({ path: `/actors?tenant_id=${v4()}`, token: operator }),
    },
  },
  {
    ...{ ...reading, path: '/actors/{kind}/{id}' },
    request: async (world) => ({ path: `/actors/device/${await world.device()}` }),
    refusals: {
      NOT_FOUND: async (world) => ({ path: `/actors/command/${await world.device()}` }),
      FORBIDDEN: ({ tenantId }) => ({ path: `/actors/tenant/${tenantId}?tenant_id=${tenantId}` }),
    },
  },
  {
    ...{ ...reading, path: '/actors/{kind}/{id}/journal' },
    request: async (world) => ({ path: `/actors/device/${await world.device()}/journal` }),
    refusals: {
      NOT_FOUND: () => ({ path: `/actors/lamp/${v4()}/journal` }),
      VALIDATION_FAILED: async (world) => ({ path: `/actors/device/${await world.device()}/journal?limit=0` }),
    },
  },
  {
    ...{ method: 'POST', path: '/actors/{kind}/{id}/release', role: 'admin', scope: 'write:actors', status: 200 },
    request: async (world) => ({ path: `/actors/device/${await quarantined(world)}/release` }),
    refusals: {
      ILLEGAL_TRANSITION: async (world) => ({ path: `/actors/device/${await world.device()}/release` }),
      VALIDATION_FAILED: async (world) => ({
        path: `/actors/device/${await quarantined(world)}/release`,
        body: { reason: 'Well again' },
      }),
    },
  },
  {
    ...{ ...reading, path: '/machines', role: 'viewer' },
    request: () => ({ path: '/machines' }),
  },
  {
    ...{ ...reading, path: '/machines/{kind}', role: 'viewer', common: true },
    request: () => ({ path: '/machines/command' }),
    refusals: { NOT_FOUND: () => ({ path: '/machines/lamp' }) },
  },
  {
    ...{ ...reading, path: '/overview', role: 'viewer', scope: 'read:tenant' },
    request: () => ({ path: '/overview' }),
    refusals: {
      FORBIDDEN: ({ tenantId }) => ({ path: `/overview?tenant_id=${tenantId}` }),
      NOT_FOUND: ({ operator }) => ({ path: `/overview?tenant_id=${v4()}`, token: operator }),
    },
  },
  {
    ...{ ...reading, path: '/audit', scope: 'read:audit' },
    request: async (world) => {
      await world.home();
      return { path: '/audit?limit=2' };
    },
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/audit?from=yesterday' }),
      FORBIDDEN: () => ({ path: '/audit?platform=true' }),
    },
  },
  {
    ...{ ...reading, path: '/audit/export', scope: 'read:audit' },
    request: async (world) => {
      await world.home();
      return { path: '/audit/export?format=csv' };
    },
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/audit/export?format=xml' }),
      FORBIDDEN: () => ({ path: '/audit/export?platform=true' }),
      NOT_FOUND: ({ operator }) => ({ path: `/audit/export?tenant_id=${v4()}`, token: operator }),
    },
  },
  {
    ...{ ...reading, path: '/audit/verify', scope: 'read:audit' },
    request: async (world) => {
      await world.home();
      return { path: '/audit/verify' };
    },
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/audit/verify?from=1' }),
      FORBIDDEN: ({ tenantId }) => ({ path: `/audit/verify?tenant_id=${tenantId}` }),
      NOT_FOUND: ({ operator }) => ({ path: `/audit/verify?tenant_id=${v4()}`, token: operator }),
    },
  },
];
