import { createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from '../../../operations/identity/api-keys.ts';
import { getCsrfToken, getMe, logout, openCookieSession } from '../../../operations/identity/auth.ts';
import { endProviderSession } from '../../../operations/identity/backchannel-logout.ts';
import { approveCliHandshake, pollCliHandshake } from '../../../operations/identity/cli-handshake.ts';
import { acceptInvitation } from '../../../operations/identity/invitations.ts';
import { changeMember, inviteMember, listMembers, removeMember } from '../../../operations/identity/members.ts';
import {
  endAllSessions,
  endMemberSessions,
  endSession,
  listMemberSessions,
  listSessions,
} from '../../../operations/identity/sessions.ts';
import { createSignInLink, showSignInLink } from '../../../operations/identity/sign-in-links.ts';
import { getTenant, registerTenant } from '../../../operations/identity/tenants.ts';
import { createWsTicket } from '../../../operations/identity/websocket-tickets.ts';
import type { Route } from '../route.ts';

export const identityRoutes: Route[] = [
  { method: 'GET', path: '/auth/me', operation: getMe, success: 200 },
  { method: 'POST', path: '/auth/cli/approve', operation: approveCliHandshake, success: 200 },
  {
    method: 'GET',
    path: '/auth/handshake/{code}',
    operation: pollCliHandshake,
    success: 200,
    secretHeaders: { 'x-handshake-verifier': 'verifier' },
  },
  { method: 'GET', path: '/auth/csrf', operation: getCsrfToken, success: 200 },
  { method: 'POST', path: '/auth/session', operation: openCookieSession, success: 204 },
  { method: 'POST', path: '/auth/link', operation: createSignInLink, success: 201 },
  {
    method: 'GET',
    path: '/auth/link',
    operation: showSignInLink,
    success: 200,
    secretHeaders: { 'x-sign-in-link': 'code' },
  },
  { method: 'POST', path: '/auth/logout', operation: logout, success: 200 },
  { method: 'POST', path: '/auth/backchannel-logout', operation: endProviderSession, success: 200 },
  { method: 'GET', path: '/auth/sessions', operation: listSessions, success: 200 },
  { method: 'DELETE', path: '/auth/sessions', operation: endAllSessions, success: 204 },
  { method: 'DELETE', path: '/auth/sessions/{id}', operation: endSession, success: 204 },
  { method: 'GET', path: '/auth/api-keys', operation: listApiKeys, success: 200 },
  { method: 'POST', path: '/auth/api-keys', operation: createApiKey, success: 201 },
  { method: 'POST', path: '/auth/api-keys/revoke', operation: revokeApiKey, success: 200 },
  { method: 'POST', path: '/auth/api-keys/rotate', operation: rotateApiKey, success: 200 },
  { method: 'GET', path: '/tenant', operation: getTenant, success: 200 },
  { method: 'GET', path: '/tenant/members', operation: listMembers, success: 200 },
  { method: 'POST', path: '/tenant/members', operation: inviteMember, success: 201 },
  { method: 'PATCH', path: '/tenant/members/{userId}', operation: changeMember, success: 200 },
  { method: 'DELETE', path: '/tenant/members/{userId}', operation: removeMember, success: 204 },
  { method: 'GET', path: '/tenant/members/{userId}/sessions', operation: listMemberSessions, success: 200 },
  { method: 'DELETE', path: '/tenant/members/{userId}/sessions', operation: endMemberSessions, success: 204 },
  { method: 'POST', path: '/auth/invitations/{id}/accept', operation: acceptInvitation, success: 200 },
  { method: 'POST', path: '/tenant/register', operation: registerTenant, success: 201 },
  { method: 'POST', path: '/ws/ticket', operation: createWsTicket, success: 201, atRoot: 'only' },
];
