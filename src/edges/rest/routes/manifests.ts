import {
  getManifest,
  listCapabilities,
  listCategories,
  registerManifest,
  updateManifest,
} from '../../../operations/devices/manifests.ts';
import type { Route } from '../route.ts';

const headers = { 'if-match': 'version' };

export const manifestRoutes: Route[] = [
  { method: 'GET', path: '/manifest/capabilities', operation: listCapabilities, success: 200 },
  { method: 'GET', path: '/manifest/types', operation: listCategories, success: 200 },
  { method: 'GET', path: '/devices/{deviceId}/manifest', operation: getManifest, success: 200 },
  { method: 'POST', path: '/devices/{deviceId}/manifest', operation: registerManifest, success: 201 },
  {
    method: 'PUT',
    path: '/devices/{deviceId}/manifest',
    operation: updateManifest,
    success: 200,
    conditionHeaders: headers,
  },
];
