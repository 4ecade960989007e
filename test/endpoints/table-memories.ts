import type { Row } from './endpoint.ts';
import type { World } from './endpoint-fixtures.ts';

async function observation(world: World): Promise<string> {
  const body = { kind: 'observation', content: 'The window was left open.' };
  const { memory } = (await world.made('POST', '/memories', body)) as unknown as { memory: { id: string } };
  return memory.id;
}

/** A routine of a key, which any person may adopt. */
async function suggestion(world: World): Promise<string> {
  const { key } = await world.apiKey();
  const body = { kind: 'routine', content: 'Good night: all lights off.' };
  const { memory } = (await world.call('POST', '/memories', body, { token: key })).body;
  return memory.id;
}

// Specification §2, agent memory; contract §6.
export const memoryRows: readonly Row[] = [
  {
    ...{ method: 'POST', path: '/memories', role: 'user', scope: 'write:memory', status: 201 },
    request: () => ({
      path: '/memories',
      body: { kind: 'routine', subject: 'house', content: 'Good night: all lights off.', tags: ['night'] },
    }),
    refusals: { VALIDATION_FAILED: () => ({ path: '/memories', body: { kind: 'dream', content: 'x' } }) },
  },
  {
    ...{ method: 'GET', path: '/memories', role: 'viewer', scope: 'read:memory', status: 200 },
    request: async (world) => {
      await world.memory();
      return { path: '/memories?kind=preference&subject=house&tag=light&q=warm%20-cold' };
    },
    refusals: { VALIDATION_FAILED: () => ({ path: '/memories?kind=dream' }) },
  },
  {
    ...{ method: 'DELETE', path: '/memories/{id}', role: 'user', scope: 'write:memory', status: 204 },
    // Deleting one that steers goals requires execute:commands as well.
    request: async (world) => ({ path: `/memories/${await observation(world)}` }),
  },
  {
    ...{ method: 'POST', path: '/memories/{id}/adopt', role: 'user', scope: 'write:memory', status: 200, person: true },
    alsoScope: 'execute:commands',
    request: async (world) => ({ path: `/memories/${await suggestion(world)}/adopt`, body: {} }),
    refusals: { CONFLICT: async (world) => ({ path: `/memories/${await observation(world)}/adopt`, body: {} }) },
  },
];
