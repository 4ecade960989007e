import type { CollectionSizes } from '../domain/collection-sizes.ts';
import type { Log } from '../domain/log.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { Output, VolatileOutput } from '../machines/outputs.ts';
import type { Actors, Committed, VolatileOutputHandler } from './contract.ts';

type TransitionHandler = Parameters<Actors['subscribeTransitions']>[0];

/** Who listens to what was committed. One that throws is logged and stops nobody. */
export class EventBus {
  private readonly byType = new Map<string, Set<VolatileOutputHandler>>();
  private readonly transitionHandlers = new Set<TransitionHandler>();
  private readonly log: Log;

  constructor(log: Log) {
    this.log = log;
  }

  sizes(): CollectionSizes {
    let outputs = 0;
    for (const sinks of this.byType.values()) outputs += sinks.size;
    return { output_listeners: outputs, transition_listeners: this.transitionHandlers.size };
  }

  subscribe<T extends VolatileOutput['type']>(type: T, sink: VolatileOutputHandler<T>): () => void {
    let sinks = this.byType.get(type);
    if (!sinks) {
      sinks = new Set();
      this.byType.set(type, sinks);
    }
    const listener = sink as unknown as VolatileOutputHandler;
    sinks.add(listener);
    return () => sinks.delete(listener);
  }

  subscribeTransitions(watcher: TransitionHandler): () => void {
    this.transitionHandlers.add(watcher);
    return () => this.transitionHandlers.delete(watcher);
  }

  /** What is kept has no sinks. */
  emit(output: Output): void {
    const sinks = this.byType.get(output.type);
    if (sinks === undefined) return;
    for (const sink of sinks) {
      try {
        sink(output as never);
      } catch (error) {
        this.logFailure(error);
      }
    }
  }

  emitTransition(committed: Committed, event: MachineEvent, from: Parameters<TransitionHandler>[2]): void {
    for (const watch of this.transitionHandlers) {
      try {
        watch(committed, event, from);
      } catch (error) {
        this.logFailure(error);
      }
    }
  }

  private logFailure(error: unknown): void {
    this.log.error({ err: error }, 'a sink failed');
  }
}
