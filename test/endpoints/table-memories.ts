import type { Row } from './endpoint.ts';

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
    request: async (world) => ({ path: `/memories/${await world.memory()}` }),
  },
];
