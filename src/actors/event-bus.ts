import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { Output, VolatileOutput } from '../machines/outputs.ts';
import type { Actors, Committed, VolatileOutputHandler } from './contract.ts';

type TransitionHandler = Parameters<Actors['subscribeTransitions']>[0];

/** Event bus for committed outputs and transitions. An error of a handler is logged; the other handlers still run. */
export class EventBus {
  readonly #byType = new Map<string, Set<VolatileOutputHandler>>();
  readonly #transitionHandlers = new Set<TransitionHandler>();
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  sizes(): CollectionSizes {
    let outputs = 0;
    for (const handlers of this.#byType.values()) outputs += handlers.size;
    return { output_listeners: outputs, transition_listeners: this.#transitionHandlers.size };
  }

  subscribe<T extends VolatileOutput['type']>(type: T, handler: VolatileOutputHandler<T>): () => void {
    let handlers = this.#byType.get(type);
    if (!handlers) {
      handlers = new Set();
      this.#byType.set(type, handlers);
    }
    const registered = handler as unknown as VolatileOutputHandler;
    handlers.add(registered);
    return () => handlers.delete(registered);
  }

  subscribeTransitions(handler: TransitionHandler): () => void {
    this.#transitionHandlers.add(handler);
    return () => this.#transitionHandlers.delete(handler);
  }

  /** Calls the handlers of this output type; durable outputs have none. */
  emit(output: Output): void {
    const handlers = this.#byType.get(output.type);
    if (handlers === undefined) return;
    for (const handler of handlers) {
      try {
        handler(output as never);
      } catch (error) {
        this.#logFailure(error);
      }
    }
  }

  emitTransition(committed: Committed, event: MachineEvent, from: Parameters<TransitionHandler>[2]): void {
    for (const handler of this.#transitionHandlers) {
      try {
        handler(committed, event, from);
      } catch (error) {
        this.#logFailure(error);
      }
    }
  }

  #logFailure(error: unknown): void {
    this.#log.error({ err: error }, 'event handler threw');
  }
}
