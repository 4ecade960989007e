import { v7 } from 'uuid';
import type { Row } from './endpoint.ts';

const open = { role: 'open', scope: null, status: 200 } as const;

// Specification §4, authentication, health, tenant and system endpoints; contract §3 and §6.
export const identityRows: readonly Row[] = [
  {
    ...{ method: 'GET', path: '/auth/me', role: 'none', scope: null, status: 200, suspended: true },
    request: () => ({ path: '/auth/me' }),
  },
  {
    ...{ method: 'GET', path: '/tenant', role: 'viewer', scope: 'read:tenant', status: 200, suspended: true },
    request: () => ({ path: '/tenant' }),
  },
  { ...open, method: 'GET', path: '/auth/csrf', request: () => ({ path: '/auth/csrf' }) },
  {
    ...{ ...open, method: 'POST', path: '/auth/session', status: 204, goesOn: true, suspended: true },
    request: ({ tokens }) => ({ path: '/auth/session', body: { token: tokens.user } }),
    refusals: {
      UNAUTHENTICATED: () => ({ path: '/auth/session', body: { token: 'junk' } }),
      VALIDATION_FAILED: () => ({ path: '/auth/session', body: {} }),
    },
  },
  {
    ...{ method: 'POST', path: '/auth/link', role: 'none', scope: null, status: 201 },
    ...{ person: true, goesOn: true, suspended: true },
    request: () => ({ path: '/auth/link', body: {} }),
  },
  {
    ...{ ...open, method: 'GET', path: '/auth/link' },
    request: async (world) => {
      const { body } = await world.service.call('POST', '/v1/auth/link', { token: world.tokens.owner, body: {} });
      return { path: '/auth/link', headers: { 'x-sign-in-link': body.url.split('#sign-in=')[1] } };
    },
    refusals: { NOT_FOUND: () => ({ path: '/auth/link', headers: { 'x-sign-in-link': `link_${'x'.repeat(43)}` } }) },
  },
  {
    ...{ ...open, method: 'GET', path: '/auth/handshake/{code}' },
    request: async (world) => {
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
    request: async (world) => {
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
    request: () => ({ path: '/auth/logout' }),
  },
  {
    ...{ ...open, method: 'POST', path: '/auth/backchannel-logout', bytes: true, goesOn: true, suspended: true },
    request: () => ({
      path: '/auth/backchannel-logout',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: 'logout_token=valid',
    }),
    refusals: {
      VALIDATION_FAILED: () => ({
        path: '/auth/backchannel-logout',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: 'logout_token=invalid',
      }),
      UNSUPPORTED_MEDIA_TYPE: () => ({ path: '/auth/backchannel-logout', body: { logout_token: 'valid' } }),
    },
  },
  {
    ...{ method: 'GET', path: '/auth/sessions', role: 'none', scope: 'read:tenant', status: 200, person: true },
    suspended: true,
    request: () => ({ path: '/auth/sessions' }),
  },
  {
    ...{ method: 'DELETE', path: '/auth/sessions', role: 'none', scope: 'write:tenant', status: 204 },
    ...{ person: true, goesOn: true, suspended: true },
    request: async (world) => ({ path: '/auth/sessions', token: (await world.newMember()).token }),
  },
  {
    ...{ method: 'DELETE', path: '/auth/sessions/{id}', role: 'none', scope: 'write:tenant', status: 204 },
    ...{ person: true, goesOn: true, suspended: true },
    request: async (world) => {
      const { token } = await world.newMember();
      const { sessions } = (await world.service.call('GET', '/v1/auth/sessions', { token })).body;
      return { path: `/auth/sessions/${sessions[0].id}`, token };
    },
    refusals: {
      FORBIDDEN_ROLE: async (world) => {
        const { sessions } = (await world.service.call('GET', '/v1/auth/sessions', { token: world.tokens.owner })).body;
        return { path: `/auth/sessions/${sessions[0].id}`, token: world.tokens.admin };
      },
    },
  },
  {
    ...{ method: 'GET', path: '/auth/api-keys', role: 'viewer', scope: 'read:tenant', status: 200 },
    request: () => ({ path: '/auth/api-keys' }),
  },
  {
    ...{ method: 'POST', path: '/auth/api-keys', role: 'viewer', scope: 'write:tenant', status: 201, person: true },
    request: () => ({ path: '/auth/api-keys', body: { name: 'Night shift', scopes: ['read:devices'] } }),
    refusals: { VALIDATION_FAILED: () => ({ path: '/auth/api-keys', body: { name: 'x', scopes: ['fly:devices'] } }) },
  },
  {
    ...{ method: 'POST', path: '/auth/api-keys/revoke', role: 'viewer', scope: 'write:tenant', status: 200 },
    ...{ person: true, goesOn: true, foreign: 'body' },
    request: async (world, token) => ({
      path: '/auth/api-keys/revoke',
      body: { prefix: (await world.apiKey(token)).prefix },
    }),
    refusals: { NOT_FOUND: () => ({ path: '/auth/api-keys/revoke', body: { prefix: 'abcdefgh' } }) },
  },
  {
    ...{ method: 'POST', path: '/auth/api-keys/rotate', role: 'viewer', scope: 'write:tenant', status: 200 },
    ...{ person: true, foreign: 'body' },
    request: async (world, token) => ({
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
    request: () => ({ path: '/tenant/members' }),
  },
  {
    ...{ method: 'POST', path: '/tenant/members', role: 'admin', scope: 'write:tenant', status: 201, person: true },
    request: () => ({ path: '/tenant/members', body: { email: `${v7()}@example.com`, role: 'user' } }),
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
    request: async (world) => ({
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
    request: async (world) => {
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
    ...{ method: 'GET', path: '/tenant/members/{userId}/sessions', role: 'admin', scope: 'read:tenant', status: 200 },
    person: true,
    request: async (world) => ({ path: `/tenant/members/${(await world.newMember()).userId}/sessions` }),
  },
  {
    ...{ method: 'DELETE', path: '/tenant/members/{userId}/sessions', role: 'admin', scope: 'write:tenant' },
    ...{ status: 204, person: true, goesOn: true },
    request: async (world) => ({ path: `/tenant/members/${(await world.newMember()).userId}/sessions` }),
    refusals: {
      FORBIDDEN_ROLE: ({ userId, tokens }) => ({ path: `/tenant/members/${userId}/sessions`, token: tokens.admin }),
    },
  },
  {
    ...{ method: 'POST', path: '/auth/invitations/{id}/accept', role: 'none', scope: 'write:tenant', status: 200 },
    person: true,
    request: async (world) => {
      const { id, token } = await world.invitation();
      return { path: `/auth/invitations/${id}/accept`, token };
    },
    refusals: {
      NOT_FOUND: async (world) => ({ path: `/auth/invitations/${(await world.invitation()).id}/accept` }),
    },
  },
  {
    ...{ method: 'POST', path: '/tenant/register', role: 'none', scope: 'write:tenant', status: 201 },
    request: async ({ service }) => ({
      path: '/tenant/register',
      body: { tenant_name: 'Lakeside' },
      token: await service.token(v7()),
    }),
    refusals: {
      CONFLICT: ({ tokens }) => ({
        path: '/tenant/register',
        body: { tenant_name: 'Another' },
        token: tokens.owner,
      }),
      VALIDATION_FAILED: async ({ service }) => ({
        path: '/tenant/register',
        body: {},
        token: await service.token(v7()),
      }),
    },
  },
  {
    ...{ method: 'POST', path: '/ws/ticket', role: 'user', scope: 'read:devices', status: 201 },
    ...{ root: 'only', goesOn: true },
    request: () => ({ path: '/ws/ticket' }),
  },
  { ...open, method: 'GET', path: '/health', root: 'too', request: () => ({ path: '/health' }) },
  { ...open, method: 'GET', path: '/health/live', root: 'too', request: () => ({ path: '/health/live' }) },
  { ...open, method: 'GET', path: '/health/ready', root: 'too', request: () => ({ path: '/health/ready' }) },
  { ...open, method: 'GET', path: '/status', root: 'too', request: () => ({ path: '/status' }) },
  { ...open, method: 'GET', path: '/version', root: 'too', request: () => ({ path: '/version' }) },
  { ...open, method: 'GET', path: '/changelog', root: 'too', request: () => ({ path: '/changelog' }) },
  { ...open, method: 'GET', path: '/metrics', root: 'too', request: () => ({ path: '/metrics' }) },
];
