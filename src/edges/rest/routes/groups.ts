import {
  createGroup,
  deleteGroup,
  getGroup,
  joinGroup,
  leaveGroup,
  listGroups,
  updateGroup,
} from '../../../operations/homes/groups.ts';
import type { Route } from '../route.ts';

export const groupRoutes: Route[] = [
  { method: 'GET', path: '/groups', operation: listGroups, success: 200 },
  { method: 'POST', path: '/groups', operation: createGroup, success: 201 },
  { method: 'GET', path: '/groups/{slug}', operation: getGroup, success: 200 },
  { method: 'PATCH', path: '/groups/{slug}', operation: updateGroup, success: 200 },
  { method: 'POST', path: '/groups/{slug}/join', operation: joinGroup, success: 200 },
  { method: 'DELETE', path: '/groups/{slug}/devices/{id}', operation: leaveGroup, success: 204 },
  { method: 'DELETE', path: '/groups/{slug}', operation: deleteGroup, success: 204 },
];
