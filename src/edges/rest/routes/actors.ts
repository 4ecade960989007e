import { getActor, getActorJournal, listActors, releaseActor } from '../../../operations/inspection/actors.ts';
import { listAudit, verifyAudit } from '../../../operations/inspection/audit.ts';
import { exportAudit } from '../../../operations/inspection/audit-export.ts';
import { getMachine, listMachines } from '../../../operations/inspection/machines.ts';
import { getOverview } from '../../../operations/inspection/overview.ts';
import type { Route } from '../route.ts';

const query = ['tenant_id'];

export const actorRoutes: Route[] = [
  { method: 'GET', path: '/actors', operation: listActors, success: 200 },
  { method: 'GET', path: '/actors/{kind}/{id}', operation: getActor, success: 200 },
  { method: 'GET', path: '/actors/{kind}/{id}/journal', operation: getActorJournal, success: 200 },
  { method: 'POST', path: '/actors/{kind}/{id}/release', operation: releaseActor, success: 200, query },
  { method: 'GET', path: '/machines', operation: listMachines, success: 200 },
  { method: 'GET', path: '/machines/{kind}', operation: getMachine, success: 200 },
  { method: 'GET', path: '/overview', operation: getOverview, success: 200 },
  { method: 'GET', path: '/audit', operation: listAudit, success: 200 },
  { method: 'GET', path: '/audit/export', operation: exportAudit, success: 200 },
  { method: 'GET', path: '/audit/verify', operation: verifyAudit, success: 200 },
];
