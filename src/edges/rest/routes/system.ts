import {
  getChangelog,
  getHealth,
  getLiveness,
  getReadiness,
  getStatus,
  getVersion,
} from '../../../operations/platform/system.ts';
import type { Route } from '../route.ts';

export const systemRoutes: Route[] = [
  { method: 'GET', path: '/health', operation: getHealth, success: 200, atRoot: true, rateLimitExempt: true },
  { method: 'GET', path: '/health/live', operation: getLiveness, success: 200, atRoot: true, rateLimitExempt: true },
  { method: 'GET', path: '/health/ready', operation: getReadiness, success: 200, atRoot: true, rateLimitExempt: true },
  { method: 'GET', path: '/status', operation: getStatus, success: 200, atRoot: true },
  { method: 'GET', path: '/version', operation: getVersion, success: 200, atRoot: true },
  { method: 'GET', path: '/changelog', operation: getChangelog, success: 200, atRoot: true },
];
