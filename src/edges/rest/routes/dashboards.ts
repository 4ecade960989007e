import {
  createDashboard,
  deleteDashboard,
  getDashboard,
  listDashboards,
  replaceDashboard,
} from '../../../operations/homes/dashboards.ts';
import type { Route } from '../route.ts';

export const dashboardRoutes: Route[] = [
  { method: 'GET', path: '/dashboards', operation: listDashboards, success: 200 },
  { method: 'POST', path: '/dashboards', operation: createDashboard, success: 201 },
  { method: 'GET', path: '/dashboards/{id}', operation: getDashboard, success: 200 },
  { method: 'PUT', path: '/dashboards/{id}', operation: replaceDashboard, success: 200 },
  { method: 'DELETE', path: '/dashboards/{id}', operation: deleteDashboard, success: 204 },
];
