import { orchestrateCommand } from '../../../operations/cognition/goals.ts';
import { postIntent } from '../../../operations/cognition/intents.ts';
import { postObservation } from '../../../operations/cognition/observations.ts';
import { acceptProposal, getProposal, listProposals, refuseProposal } from '../../../operations/cognition/proposals.ts';
import type { Route } from '../route.ts';

export const cognitionRoutes: Route[] = [
  { method: 'POST', path: '/intent', operation: postIntent, success: 200 },
  { method: 'POST', path: '/devices/{id}/command', operation: orchestrateCommand, success: 202 },
  { method: 'POST', path: '/cognition/observation', operation: postObservation, success: 202 },
  { method: 'GET', path: '/cognition/proposals', operation: listProposals, success: 200 },
  { method: 'GET', path: '/cognition/proposals/{id}', operation: getProposal, success: 200 },
  { method: 'POST', path: '/cognition/proposals/{id}/accept', operation: acceptProposal, success: 202 },
  { method: 'POST', path: '/cognition/proposals/{id}/refuse', operation: refuseProposal, success: 200 },
];
