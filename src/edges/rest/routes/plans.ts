import { getPlan, listPlans } from '../../../operations/plans/plan-view.ts';
import { cancelPlan, createPlan } from '../../../operations/plans/plans.ts';
import type { Route } from '../route.ts';

export const planRoutes: Route[] = [
  { method: 'GET', path: '/plans', operation: listPlans, success: 200 },
  { method: 'POST', path: '/plans', operation: createPlan, success: 202 },
  { method: 'GET', path: '/plans/{id}', operation: getPlan, success: 200 },
  { method: 'POST', path: '/plans/{id}/cancel', operation: cancelPlan, success: 202 },
];
