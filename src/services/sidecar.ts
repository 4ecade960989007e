import type { ContextChange } from '../domain/cognition.ts';

/** The cognitive sidecar: the interface that operations use. */
export interface Sidecar {
  connected(): boolean;
  /**
   * Passes on a durable change of a context, whether a sidecar is connected or not. Not redelivered after a crash:
   * `Cognition.active` returns the contexts that are still valid. Cheap; never throws.
   */
  notify(change: ContextChange): void;
}

/** Used when no sidecar is configured. */
export const noSidecar: Sidecar = { connected: () => false, notify() {} };
