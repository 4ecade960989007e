import type { ContextChangeBody } from '../../domain/cognition.ts';
import type { StepStatus } from '../../domain/plan.ts';
import type { Proposal } from '../../domain/proposal.ts';
import type { Services } from '../operation.ts';

// Notifications to the sidecar about proposals; plans send their own.

type EventServices = Pick<Services, 'sidecar' | 'clock'>;
type ProposalRef = Pick<Proposal, 'id' | 'tenantId' | 'homeId'>;

export const notifySidecar = (
  { sidecar, clock }: EventServices,
  { id, tenantId, homeId }: ProposalRef,
  change: ContextChangeBody,
): void => sidecar.notify({ contextId: id, tenantId, homeId, at: clock.now(), ...change });

export const notifyNodeChange = (
  services: EventServices,
  proposal: ProposalRef,
  nodeId: string,
  from: StepStatus | null,
  to: StepStatus,
) => notifySidecar(services, proposal, { type: 'node', nodeId, from, to, commandId: null, error: null });
