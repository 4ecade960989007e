import type { Row } from './endpoint.ts';
import type { World } from './endpoint-fixtures.ts';

const NOBODY = '0195d9a2-7f00-7000-8000-000000000001';

const observed = async (world: World): Promise<string> => {
  const body = { device_id: await world.device(), data: { humidity: 81 } };
  return (await world.made('POST', '/cognition/observation', body)).proposal_id as string;
};

/** A proposal whose reason the sidecar has sent. */
async function spoken(world: World): Promise<string> {
  const { cognition } = world.service;
  const device_id = await world.device();
  const body = { device_id, data: { humidity: 81 }, context: 'After a shower' };
  const id = (await world.made('POST', '/cognition/observation', body)).proposal_id as string;
  const node = {
    ...{ id: 'light', device_id, action: 'set_brightness', params: { level: 40 }, depends_on: [], timeout_s: 20 },
    compensation: { action: 'turn_off', params: {} },
  };
  for (const sent of [await cognition.propose(id, node), await cognition.complete(id, { summary: 'It is damp.' })]) {
    if (!sent.ok) throw new Error(sent.refusal.detail);
  }
  return id;
}

const intent = (type: string, payload: object) => ({ path: '/intent', body: { type, payload } });

// Specification §4 "Intent and cognitive", contract §6.
export const cognitionRows: readonly Row[] = [
  {
    ...{ method: 'POST', path: '/intent', role: 'user', scope: 'execute:intents', status: 200, foreign: 'body' },
    alsoScope: 'execute:commands',
    request: async (world) =>
      intent('device.control', { device_id: await world.device(), action: 'turn_on', params: {} }),
    refusals: {
      VALIDATION_FAILED: () => intent('world.peace', {}),
      NOT_FOUND: () => intent('goal', { text: 'Make it warm.', home_id: NOBODY }),
    },
  },
  {
    ...{ method: 'POST', path: '/devices/{id}/command', role: 'admin', scope: 'execute:commands', status: 202 },
    request: async (world) => ({
      path: `/devices/${await world.device()}/command`,
      body: { action: 'set_brightness', params: { level: 40 }, context: 'Two people watch a film.' },
    }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({
        path: `/devices/${await world.device()}/command`,
        body: { goal: 'Dim it.', action: 'turn_off' },
      }),
      NOT_FOUND: () => ({ path: `/devices/${NOBODY}/command`, body: { goal: 'Dim it.' } }),
    },
  },
  {
    ...{ method: 'POST', path: '/cognition/observation', role: 'user', scope: 'execute:intents', status: 202 },
    foreign: 'body',
    request: async (world) => ({
      path: '/cognition/observation',
      body: { device_id: await world.device(), data: { humidity: 81 }, context: 'After a shower' },
    }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({
        path: '/cognition/observation',
        body: { device_id: await world.device(), data: 81 },
      }),
      NOT_FOUND: () => ({ path: '/cognition/observation', body: { device_id: NOBODY, data: {} } }),
    },
  },
  {
    ...{ method: 'GET', path: '/cognition/proposals', role: 'viewer', scope: 'read:plans', status: 200 },
    request: async (world) => {
      await spoken(world);
      return { path: '/cognition/proposals' };
    },
  },
  {
    ...{ method: 'GET', path: '/cognition/proposals/{id}', role: 'viewer', scope: 'read:plans', status: 200 },
    request: async (world) => ({ path: `/cognition/proposals/${await spoken(world)}` }),
  },
  {
    ...{ method: 'POST', path: '/cognition/proposals/{id}/accept', role: 'user', scope: 'execute:plans', status: 202 },
    alsoScope: 'execute:commands',
    request: async (world) => ({ path: `/cognition/proposals/${await spoken(world)}/accept` }),
    refusals: {
      CONFLICT: async (world) => ({ path: `/cognition/proposals/${await observed(world)}/accept` }),
    },
  },
  {
    ...{ method: 'POST', path: '/cognition/proposals/{id}/refuse', role: 'user', scope: 'execute:plans', status: 200 },
    goesOn: true,
    request: async (world) => ({
      path: `/cognition/proposals/${await spoken(world)}/refuse`,
      body: { reason: 'The window is open.' },
    }),
    refusals: {
      CONFLICT: async (world) => {
        const id = await spoken(world);
        await world.made('POST', `/cognition/proposals/${id}/accept`, {});
        return { path: `/cognition/proposals/${id}/refuse` };
      },
    },
  },
];
