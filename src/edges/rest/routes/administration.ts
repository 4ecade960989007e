import {
  listFlags,
  listTenants,
  resumeTenant,
  setFlag,
  setTier,
  suspendTenant,
} from '../../../operations/platform/administration.ts';
import { drainNode, listNodes, resumeNode } from '../../../operations/platform/nodes.ts';
import { rekey } from '../../../operations/platform/rekey.ts';
import type { Route } from '../route.ts';

export const administrationRoutes: Route[] = [
  { method: 'GET', path: '/admin/tenants', operation: listTenants, success: 200 },
  { method: 'POST', path: '/admin/tenants/{id}/suspend', operation: suspendTenant, success: 200 },
  { method: 'POST', path: '/admin/tenants/{id}/resume', operation: resumeTenant, success: 200 },
  { method: 'POST', path: '/admin/tenants/{id}/tier', operation: setTier, success: 200 },
  { method: 'GET', path: '/admin/flags', operation: listFlags, success: 200 },
  { method: 'POST', path: '/admin/flags/{flag}', operation: setFlag, success: 200 },
  { method: 'GET', path: '/admin/nodes', operation: listNodes, success: 200 },
  { method: 'POST', path: '/admin/nodes/{id}/drain', operation: drainNode, success: 200 },
  { method: 'POST', path: '/admin/nodes/{id}/resume', operation: resumeNode, success: 200 },
  { method: 'POST', path: '/admin/rekey', operation: rekey, success: 200 },
];
