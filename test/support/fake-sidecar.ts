import type { ContextChange } from '../../src/operations/cognition/contract.ts';
import type { Services } from '../../src/operations/operation.ts';
import type { Sidecar } from '../../src/services/sidecar.ts';

/** Stands where a sidecar is dialled: it is connected until `away`, and keeps what it is told. */
export interface FakeSidecar extends Sidecar {
  readonly changes: ContextChange[];
  disconnected: boolean;
  /** What it was told of this context. */
  changesOf(contextId: string): ContextChange[];
}

export function installFakeSidecar(services: Pick<Services, 'sidecar'>): FakeSidecar {
  const told: ContextChange[] = [];
  const sidecar: FakeSidecar = {
    changes: told,
    disconnected: false,
    connected: () => !sidecar.disconnected,
    notify: (change) => void told.push(change),
    changesOf: (id) => told.filter(({ contextId }) => contextId === id),
  };
  services.sidecar = sidecar;
  return sidecar;
}
