import type { Row } from './endpoint.ts';
import type { World } from './endpoint-fixtures.ts';

const text = { kind: 'text', id: 'note', x: 0, y: 0, w: 4, h: 2, text: 'Bins on Tuesday' };

async function made(world: World): Promise<{ id: string; version: number }> {
  const { dashboard } = (await world.made('POST', '/dashboards', { name: 'Hallway', tiles: [text] })) as unknown as {
    dashboard: { id: string; version: number };
  };
  return dashboard;
}

// Contract §6.
export const dashboardRows: readonly Row[] = [
  {
    ...{ method: 'GET', path: '/dashboards', role: 'viewer', scope: 'read:homes', status: 200 },
    request: async (world) => ({ path: `/dashboards?home_id=${await world.home()}` }),
    refusals: { VALIDATION_FAILED: () => ({ path: '/dashboards?cursor=junk' }) },
  },
  {
    ...{ method: 'POST', path: '/dashboards', role: 'admin', scope: 'write:homes', status: 201 },
    foreign: 'body',
    request: async (world) => ({
      path: '/dashboards',
      body: {
        name: 'Hallway',
        home_id: await world.home(),
        // Tiles of commands need another scope: test/operations/homes/dashboards.test.ts.
        tiles: [text],
      },
    }),
    refusals: {
      VALIDATION_FAILED: () => ({ path: '/dashboards', body: { name: 'Hallway', tiles: [text, text] } }),
      NOT_FOUND: (world) => ({ path: '/dashboards', body: { name: 'Hallway', home_id: world.tenantId } }),
    },
  },
  {
    ...{ method: 'GET', path: '/dashboards/{id}', role: 'viewer', scope: 'read:homes', status: 200 },
    request: async (world) => ({ path: `/dashboards/${(await made(world)).id}` }),
  },
  {
    ...{ method: 'PUT', path: '/dashboards/{id}', role: 'admin', scope: 'write:homes', status: 200 },
    request: async (world) => {
      const { id, version } = await made(world);
      return { path: `/dashboards/${id}`, body: { version, name: 'Landing', tiles: [{ ...text, x: 2 }] } };
    },
    refusals: {
      CONFLICT: async (world) => ({
        path: `/dashboards/${(await made(world)).id}`,
        body: { version: 7, name: 'Landing' },
      }),
    },
  },
  {
    ...{ method: 'DELETE', path: '/dashboards/{id}', role: 'admin', scope: 'write:homes', status: 204 },
    request: async (world) => ({ path: `/dashboards/${(await made(world)).id}` }),
  },
];
