import type { ContextChangeBody } from '../../domain/cognition.ts';
import type { StepStatus } from '../../domain/plan.ts';
import type { Proposal } from '../../domain/proposal.ts';
import type { Services } from '../operation.ts';

// What proposals have to tell whoever thinks; plans tell it themselves.

type EventServices = Pick<Services, 'sidecar' | 'clock'>;
type ProposalRef = Pick<Proposal, 'id' | 'tenantId' | 'homeId'>;

export const notifySidecar = (
  { sidecar, clock }: EventServices,
  { id, tenantId, homeId }: ProposalRef,
  told: ContextChangeBody,
): void => sidecar.notify({ contextId: id, tenantId, homeId, at: clock.now(), ...told });

export const notifyNodeChange = (
  services: EventServices,
  about: ProposalRef,
  nodeId: string,
  from: StepStatus | null,
  to: StepStatus,
) => notifySidecar(services, about, { type: 'node', nodeId, from, to, commandId: null, error: null });
