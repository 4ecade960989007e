import type { ContextChange } from '../../src/operations/cognition/contract.ts';
import type { Services } from '../../src/operations/operation.ts';
import type { Sidecar } from '../../src/services/sidecar.ts';

/** Stands where a sidecar is dialled: it is connected until `away`, and keeps what it is told. */
export interface StandIn extends Sidecar {
  readonly told: ContextChange[];
  away: boolean;
  /** What it was told of this context. */
  of(contextId: string): ContextChange[];
}

export function standIn(services: Pick<Services, 'sidecar'>): StandIn {
  const told: ContextChange[] = [];
  const sidecar: StandIn = {
    told,
    away: false,
    connected: () => !sidecar.away,
    notify: (change) => void told.push(change),
    of: (id) => told.filter(({ contextId }) => contextId === id),
  };
  services.sidecar = sidecar;
  return sidecar;
}
