import { type InvalidationBus, makeLocalInvalidationBus } from '../../src/services/invalidation-bus.ts';

/** The invalidation bus of one of several nodes, whose connection a test cuts. */
export class SwitchableBus implements InvalidationBus {
  readonly entryLifeMs = 60_000;
  gaps = 0;
  #current = true;
  readonly #local = makeLocalInvalidationBus();
  readonly #missed = new Set<() => void | Promise<void>>();

  readonly publish = this.#local.publish;
  readonly subscribe = this.#local.subscribe;
  readonly sizes = this.#local.sizes;
  readonly close = this.#local.close;

  readonly isCurrent = (): boolean => this.#current;

  readonly subscribeMissed = (listener: () => void | Promise<void>): (() => void) => {
    this.#missed.add(listener);
    return () => this.#missed.delete(listener);
  };

  cut(): void {
    this.#current = false;
    this.gaps += 1;
  }

  async restore(): Promise<void> {
    for (const listener of this.#missed) await listener();
    this.#current = true;
  }
}
