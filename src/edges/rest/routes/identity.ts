import { getMe, logout } from '../../../operations/auth.ts';
import { registerTenant } from '../../../operations/tenants.ts';
import { createWsTicket } from '../../../operations/tickets.ts';
import type { Route } from '../route.ts';

export const identityRoutes: Route[] = [
  { method: 'GET', path: '/auth/me', operation: getMe, success: 200 },
  { method: 'POST', path: '/auth/logout', operation: logout, success: 200 },
  { method: 'POST', path: '/tenant/register', operation: registerTenant, success: 201 },
  { method: 'POST', path: '/ws/ticket', operation: createWsTicket, success: 201, atRoot: 'only' },
];
