import type { ContextChangeBody } from '../../domain/cognition.ts';
import type { StepStatus } from '../../domain/plan.ts';
import type { Proposal } from '../../domain/proposal.ts';
import type { Services } from '../operation.ts';

// What proposals have to tell whoever thinks; plans tell it themselves.

type Telling = Pick<Services, 'sidecar' | 'clock'>;
type About = Pick<Proposal, 'id' | 'tenantId' | 'homeId'>;

export const tellOf = ({ sidecar, clock }: Telling, { id, tenantId, homeId }: About, told: ContextChangeBody): void =>
  sidecar.tell({ contextId: id, tenantId, homeId, at: clock.now(), ...told });

export const tellOfNode = (services: Telling, about: About, nodeId: string, from: StepStatus | null, to: StepStatus) =>
  tellOf(services, about, { type: 'node', nodeId, from, to, commandId: null, error: null });
