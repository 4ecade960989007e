import { adoptMemory, deleteMemory, listMemories, writeMemory } from '../../../operations/cognition/memories.ts';
import type { Route } from '../route.ts';

export const memoryRoutes: Route[] = [
  { method: 'GET', path: '/memories', operation: listMemories, success: 200 },
  { method: 'POST', path: '/memories', operation: writeMemory, success: 201 },
  { method: 'POST', path: '/memories/{id}/adopt', operation: adoptMemory, success: 200 },
  { method: 'DELETE', path: '/memories/{id}', operation: deleteMemory, success: 204 },
];
