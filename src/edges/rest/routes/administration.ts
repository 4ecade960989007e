import {
  listFlags,
  listTenants,
  resumeTenant,
  setFlag,
  setTier,
  suspendTenant,
} from '../../../operations/platform/administration.ts';
import type { Route } from '../route.ts';

export const administrationRoutes: Route[] = [
  { method: 'GET', path: '/admin/tenants', operation: listTenants, success: 200 },
  { method: 'POST', path: '/admin/tenants/{id}/suspend', operation: suspendTenant, success: 200 },
  { method: 'POST', path: '/admin/tenants/{id}/resume', operation: resumeTenant, success: 200 },
  { method: 'POST', path: '/admin/tenants/{id}/tier', operation: setTier, success: 200 },
  { method: 'GET', path: '/admin/flags', operation: listFlags, success: 200 },
  { method: 'POST', path: '/admin/flags/{flag}', operation: setFlag, success: 200 },
];
