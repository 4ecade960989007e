import { v7 } from 'uuid';
import type { Row } from './row.ts';

const open = { role: 'open', scope: null, status: 200 } as const;

// Specification §4, authentication, health, tenant and system endpoints; contract §3 and §6.
export const identityRows: readonly Row[] = [
  {
    ...{ method: 'GET', path: '/auth/me', role: 'none', scope: null, status: 200, suspended: true },
    ask: () => ({ path: '/auth/me' }),
  },
  { ...open, method: 'GET', path: '/auth/csrf', ask: () => ({ path: '/auth/csrf' }) },
  {
    ...{ ...open, method: 'POST', path: '/auth/session', status: 204, goesOn: true, suspended: true },
    ask: ({ tokens }) => ({ path: '/auth/session', body: { token: tokens.user } }),
    refusals: {
      UNAUTHENTICATED: () => ({ path: '/auth/session', body: { token: 'junk' } }),
      VALIDATION_FAILED: () => ({ path: '/auth/session', body: {} }),
    },
  },
  {
    ...{ ...open, method: 'GET', path: '/auth/handshake/{code}' },
    ask: async (world) => {
      const { code, headers } = await world.handshake();
      return { path: `/auth/handshake/${code}`, headers };
    },
    refusals: {
      NOT_FOUND: () => ({ path: `/auth/handshake/${'x'.repeat(43)}` }),
      FORBIDDEN: async (world) => ({ path: `/auth/handshake/${(await world.handshake()).code}` }),
    },
  },
  {
    ...{ method: 'POST', path: '/auth/cli/approve', role: 'none', scope: null, status: 200 },
    ...{ person: true, goesOn: true },
    ask: async (world) => {
      const { code, userCode } = await world.handshake();
      return { path: '/auth/cli/approve', body: { code, user_code: userCode } };
    },
    refusals: {
      FORBIDDEN: async (world) => ({
        path: '/auth/cli/approve',
        body: { code: (await world.handshake()).code, user_code: 'AAAAAA' },
      }),
      NOT_FOUND: () => ({ path: '/auth/cli/approve', body: { code: 'x'.repeat(43), user_code: 'AAAAAA' } }),
    },
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
