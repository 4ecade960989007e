import { v7 } from 'uuid';
import type { Row } from './endpoint.ts';

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
    ...{ method: 'POST', path: '/auth/link', role: 'none', scope: null, status: 201 },
    ...{ person: true, goesOn: true, suspended: true },
    ask: () => ({ path: '/auth/link', body: {} }),
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
    ...{ method: 'GET', path: '/auth/api-keys', role: 'viewer', scope: 'read:tenant', status: 200 },
    ask: () => ({ path: '/auth/api-keys' }),
  },
  {
    ...{ method: 'POST', path: '/auth/api-keys', role: 'viewer', scope: 'write:tenant', status: 201, person: true },
    ask: () => ({ path: '/auth/api-keys', body: { name: 'Night shift', scopes: ['read:devices'] } }),
    refusals: { VALIDATION_FAILED: () => ({ path: '/auth/api-keys', body: { name: 'x', scopes: ['fly:devices'] } }) },
  },
  {
    ...{ method: 'POST', path: '/auth/api-keys/revoke', role: 'viewer', scope: 'write:tenant', status: 200 },
    ...{ person: true, goesOn: true, foreign: 'body' },
    ask: async (world, token) => ({
      path: '/auth/api-keys/revoke',
      body: { prefix: (await world.apiKey(token)).prefix },
    }),
    refusals: { NOT_FOUND: () => ({ path: '/auth/api-keys/revoke', body: { prefix: 'abcdefgh' } }) },
  },
  {
    ...{ method: 'POST', path: '/auth/api-keys/rotate', role: 'viewer', scope: 'write:tenant', status: 200 },
    ...{ person: true, foreign: 'body' },
    ask: async (world, token) => ({
      path: '/auth/api-keys/rotate',
      body: { prefix: (await world.apiKey(token)).prefix },
    }),
    refusals: {
      CONFLICT: async (world) => {
        const { prefix } = await world.apiKey();
        await world.made('POST', '/auth/api-keys/revoke', { prefix });
        return { path: '/auth/api-keys/rotate', body: { prefix } };
      },
    },
  },
  {
    ...{ method: 'GET', path: '/tenant/members', role: 'admin', scope: 'read:tenant', status: 200 },
    ask: () => ({ path: '/tenant/members' }),
  },
  {
    ...{ method: 'POST', path: '/tenant/members', role: 'admin', scope: 'write:tenant', status: 201, person: true },
    ask: () => ({ path: '/tenant/members', body: { email: `${v7()}@example.com`, role: 'user' } }),
    refusals: {
      FORBIDDEN_ROLE: ({ tokens }) => ({
        path: '/tenant/members',
        body: { email: 'above@example.com', role: 'owner' },
        token: tokens.admin,
      }),
      CONFLICT: async (world) => {
        const body = { email: `${v7()}@example.com`, role: 'user' };
        await world.made('POST', '/tenant/members', body);
        return { path: '/tenant/members', body };
      },
    },
  },
  {
    ...{ method: 'PATCH', path: '/tenant/members/{userId}', role: 'admin', scope: 'write:tenant', status: 200 },
    person: true,
    ask: async (world) => ({
      path: `/tenant/members/${(await world.newMember()).userId}`,
      body: { role: 'viewer' },
    }),
    refusals: {
      CONFLICT: ({ userId }) => ({ path: `/tenant/members/${userId}`, body: { role: 'admin' } }),
      FORBIDDEN_ROLE: ({ userId, tokens }) => ({
        path: `/tenant/members/${userId}`,
        body: { role: 'user' },
        token: tokens.admin,
      }),
    },
  },
  {
    // Every member may leave; that removing others needs an admin is tested below.
    ...{ method: 'DELETE', path: '/tenant/members/{userId}', role: 'viewer', scope: 'write:tenant', status: 204 },
    person: true,
    ask: async (world) => {
      const { userId, token } = await world.newMember();
      return { path: `/tenant/members/${userId}`, token };
    },
    refusals: {
      CONFLICT: ({ userId }) => ({ path: `/tenant/members/${userId}` }),
      FORBIDDEN_ROLE: async (world) => ({
        path: `/tenant/members/${(await world.newMember()).userId}`,
        token: world.tokens.user,
      }),
    },
  },
  {
    ...{ method: 'POST', path: '/auth/invitations/{id}/accept', role: 'none', scope: 'write:tenant', status: 200 },
    person: true,
    ask: async (world) => {
      const { id, token } = await world.invitation();
      return { path: `/auth/invitations/${id}/accept`, token };
    },
    refusals: {
      NOT_FOUND: async (world) => ({ path: `/auth/invitations/${(await world.invitation()).id}/accept` }),
    },
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
