import {
  approveChange,
  confirmChange,
  getChangeRequest,
  listChangeRequests,
  refuseChange,
} from '../../../operations/changes/change-requests.ts';
import {
  approveConfirmation,
  listConfirmations,
  refuseConfirmation,
} from '../../../operations/commands/confirmation-inbox.ts';
import { getPolicy, updatePolicy } from '../../../operations/commands/safety-policy.ts';
import type { Route } from '../route.ts';

export const safetyRoutes: Route[] = [
  { method: 'GET', path: '/tenant/policy', operation: getPolicy, success: 200 },
  { method: 'PATCH', path: '/tenant/policy', operation: updatePolicy, success: 200 },
  { method: 'GET', path: '/confirmations', operation: listConfirmations, success: 200 },
  { method: 'POST', path: '/confirmations/{command_id}/approve', operation: approveConfirmation, success: 202 },
  { method: 'POST', path: '/confirmations/{command_id}/refuse', operation: refuseConfirmation, success: 200 },
  { method: 'GET', path: '/change-requests', operation: listChangeRequests, success: 200 },
  { method: 'GET', path: '/change-requests/{change_id}', operation: getChangeRequest, success: 200 },
  { method: 'POST', path: '/change-requests/{change_id}/confirm', operation: confirmChange, success: 200 },
  { method: 'POST', path: '/change-requests/{change_id}/approve', operation: approveChange, success: 200 },
  { method: 'POST', path: '/change-requests/{change_id}/refuse', operation: refuseChange, success: 200 },
];
