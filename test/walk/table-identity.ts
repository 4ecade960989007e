import { v7 } from 'uuid';
import type { Row } from './row.ts';

const open = { role: 'open', scope: null, status: 200 } as const;

// Specification §4, authentication, health, tenant and system endpoints; contract §3 and §6.
export const identityRows: readonly Row[] = [
  {
    ...{ method: 'GET', path: '/auth/me', role: 'none', scope: null, status: 200, suspended: true },
    ask: () => ({ path: '/auth/me' }),
  },
  {
    ...open,
    method: 'POST',
    path: '/auth/logout',
    goesOn: true,
    suspended: true,
    ask: () => ({ path: '/auth/logout' }),
  },
  {
    ...{ method: 'POST', path: '/tenant/register', role: 'none', scope: 'write:tenant', status: 201 },
    ask: async ({ house }) => ({
      path: '/tenant/register',
      body: { tenant_name: 'Lakeside' },
      token: await house.token(v7()),
    }),
    refusals: {
      CONFLICT: ({ tokens }) => ({
        path: '/tenant/register',
        body: { tenant_name: 'Another' },
        token: tokens.owner,
      }),
      VALIDATION_FAILED: async ({ house }) => ({ path: '/tenant/register', body: {}, token: await house.token(v7()) }),
    },
  },
  {
    ...{ method: 'POST', path: '/ws/ticket', role: 'user', scope: 'read:devices', status: 201 },
    ...{ root: 'only', goesOn: true },
    ask: () => ({ path: '/ws/ticket' }),
  },
  { ...open, method: 'GET', path: '/health', root: 'too', ask: () => ({ path: '/health' }) },
  { ...open, method: 'GET', path: '/health/live', root: 'too', ask: () => ({ path: '/health/live' }) },
  { ...open, method: 'GET', path: '/health/ready', root: 'too', ask: () => ({ path: '/health/ready' }) },
  { ...open, method: 'GET', path: '/status', root: 'too', ask: () => ({ path: '/status' }) },
  { ...open, method: 'GET', path: '/version', root: 'too', ask: () => ({ path: '/version' }) },
  { ...open, method: 'GET', path: '/changelog', root: 'too', ask: () => ({ path: '/changelog' }) },
  { ...open, method: 'GET', path: '/metrics', root: 'too', ask: () => ({ path: '/metrics' }) },
];
