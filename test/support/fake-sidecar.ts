import type { ContextChange } from '../../src/operations/cognition/contract.ts';
import type { Services } from '../../src/operations/operation.ts';
import type { Sidecar } from '../../src/services/sidecar.ts';

/** A fake sidecar: connected unless `disconnected`; records all changes that it receives. */
export interface FakeSidecar extends Sidecar {
  readonly changes: ContextChange[];
  disconnected: boolean;
  /** Changes of this context. */
  changesOf(contextId: string): ContextChange[];
}

export function installFakeSidecar(services: Pick<Services, 'sidecar'>): FakeSidecar {
  const changes: ContextChange[] = [];
  const sidecar: FakeSidecar = {
    changes,
    disconnected: false,
    connected: () => !sidecar.disconnected,
    notify: (change) => void changes.push(change),
    changesOf: (id) => changes.filter(({ contextId }) => contextId === id),
  };
  services.sidecar = sidecar;
  return sidecar;
}
