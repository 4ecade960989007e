import { exportFormats } from '../../../domain/export-formats.ts';
import { getDeviceActivity } from '../../../operations/devices/device-activity.ts';
import { getDeviceHistory } from '../../../operations/devices/device-history.ts';
import { keyHistory, reinstateDevice, revokeDevice, rotateSecret } from '../../../operations/devices/device-keys.ts';
import { registerDevice } from '../../../operations/devices/device-registration.ts';
import { deleteDevice, getDevice, listDevices, patchDevice } from '../../../operations/devices/devices.ts';
import { exportDeviceHistory } from '../../../operations/devices/history-export.ts';
import { importHistory } from '../../../operations/devices/history-import.ts';
import { queryHistory } from '../../../operations/devices/history-query.ts';
import { listTags } from '../../../operations/devices/tags.ts';
import { getDeviceTimeline } from '../../../operations/timeline/timeline.ts';
import { explainValue } from '../../../operations/timeline/value-explanation.ts';
import type { Route } from '../route.ts';

export const deviceRoutes: Route[] = [
  { method: 'POST', path: '/device/register', operation: registerDevice, success: 201 },
  { method: 'GET', path: '/devices', operation: listDevices, success: 200 },
  { method: 'GET', path: '/tags', operation: listTags, success: 200 },
  { method: 'GET', path: '/devices/{id}', operation: getDevice, success: 200 },
  { method: 'GET', path: '/devices/{id}/activity', operation: getDeviceActivity, success: 200 },
  {
    ...{ method: 'GET', path: '/devices/{id}/history', operation: getDeviceHistory, success: 200 },
    byMediaType: Object.fromEntries(
      Object.entries(exportFormats).map(([format, { type }]) => [
        type,
        { operation: exportDeviceHistory, input: { format } },
      ]),
    ),
  },
  { method: 'POST', path: '/devices/{id}/history', operation: importHistory, success: 200 },
  { method: 'GET', path: '/devices/{id}/history/export', operation: exportDeviceHistory, success: 200 },
  { method: 'POST', path: '/history/query', operation: queryHistory, success: 200 },
  { method: 'GET', path: '/devices/{id}/timeline', operation: getDeviceTimeline, success: 200 },
  { method: 'GET', path: '/devices/{id}/why', operation: explainValue, success: 200 },
  { method: 'PATCH', path: '/devices/{id}', operation: patchDevice, success: 200 },
  { method: 'DELETE', path: '/devices/{id}', operation: deleteDevice, success: 204 },
  { method: 'POST', path: '/device/{id}/rotate-secret', operation: rotateSecret, success: 200 },
  { method: 'GET', path: '/device/{id}/key-history', operation: keyHistory, success: 200 },
  { method: 'POST', path: '/device/{id}/revoke', operation: revokeDevice, success: 200 },
  { method: 'POST', path: '/device/{id}/reinstate', operation: reinstateDevice, success: 200 },
];
