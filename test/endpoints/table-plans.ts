import type { Row } from './endpoint.ts';
import type { World } from './endpoint-fixtures.ts';

const aPlan = async (world: World): Promise<string> => {
  const body = { steps: [{ id: 'on', device_id: await world.device(), action: 'turn_on' }] };
  return ((await world.made('POST', '/plans', body)) as unknown as { plan: { id: string } }).plan.id;
};

// Contract §6.
export const planRows: readonly Row[] = [
  {
    ...{ method: 'GET', path: '/plans', role: 'viewer', scope: 'read:plans', status: 200 },
    request: async (world) => {
      await aPlan(world);
      // GraphQL limits the cost of a query by the entries that it may return.
      return { path: '/plans?limit=20' };
    },
  },
  {
    ...{ method: 'POST', path: '/plans', role: 'user', scope: 'execute:plans', status: 202, foreign: 'body' },
    alsoScope: 'execute:commands',
    request: async (world) => ({
      path: '/plans',
      body: {
        name: 'Evening',
        steps: [
          { id: 'on', device_id: await world.device(), action: 'turn_on', params: {}, depends_on: [], timeout_s: 20 },
          {
            ...{ id: 'dim', device_id: await world.device(), action: 'set_brightness', params: { level: 5 } },
            ...{ depends_on: ['on'], compensation: { action: 'set_brightness', params: { level: 100 } } },
          },
        ],
        on_failure: 'stop',
      },
    }),
    refusals: {
      VALIDATION_FAILED: async (world) => ({
        path: '/plans',
        body: { steps: [{ id: 'a', device_id: await world.device(), action: 'turn_on', depends_on: ['a'] }] },
      }),
      NOT_FOUND: () => ({
        path: '/plans',
        body: { steps: [{ id: 'a', device_id: '0195d9a2-7f00-7000-8000-000000000001', action: 'turn_on' }] },
      }),
    },
  },
  {
    ...{ method: 'GET', path: '/plans/{id}', role: 'viewer', scope: 'read:plans', status: 200 },
    request: async (world) => ({ path: `/plans/${await aPlan(world)}` }),
  },
  {
    ...{ method: 'POST', path: '/plans/{id}/cancel', role: 'user', scope: 'execute:plans', status: 202, goesOn: true },
    alsoScope: 'execute:commands',
    request: async (world) => ({ path: `/plans/${await aPlan(world)}/cancel`, body: { reason: 'Changed my mind' } }),
    refusals: {
      ILLEGAL_TRANSITION: async (world) => {
        const id = await aPlan(world);
        const path = `/plans/${id}/cancel`;
        for (let n = 0; n < 1_000; n++) {
          if ((await world.call('POST', path)).status === 409) break;
        }
        return { path };
      },
    },
  },
];
