import type { ContextChange } from '../domain/cognition.ts';

/** The cognitive sidecar, as the operations see it. */
export interface Sidecar {
  connected(): boolean;
  /**
   * What becomes of contexts, told once it is durable, whether one is connected or not; what was not told when the process
   * died is told by nobody, and `Cognition.active` says what still counts. Does no work to speak of, and never throws.
   */
  notify(change: ContextChange): void;
}

/** Where there is none. */
export const noSidecar: Sidecar = { connected: () => false, notify() {} };
