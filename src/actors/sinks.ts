import type { Log } from '../domain/log.ts';
import type { Sizes } from '../domain/sizes.ts';
import type { MachineEvent } from '../machines/definition.ts';
import type { Output, VolatileOutput } from '../machines/outputs.ts';
import type { Actors, Committed, VolatileSink } from './contract.ts';

type TransitionWatcher = Parameters<Actors['onTransition']>[0];

/** Who listens to what was committed. One that throws is logged and stops nobody. */
export class Sinks {
  private readonly byType = new Map<string, Set<VolatileSink>>();
  private readonly watchers = new Set<TransitionWatcher>();
  private readonly log: Log;

  constructor(log: Log) {
    this.log = log;
  }

  sizes(): Sizes {
    let outputs = 0;
    for (const sinks of this.byType.values()) outputs += sinks.size;
    return { output_listeners: outputs, transition_listeners: this.watchers.size };
  }

  on<T extends VolatileOutput['type']>(type: T, sink: VolatileSink<T>): () => void {
    let sinks = this.byType.get(type);
    if (!sinks) {
      sinks = new Set();
      this.byType.set(type, sinks);
    }
    const listener = sink as unknown as VolatileSink;
    sinks.add(listener);
    return () => sinks.delete(listener);
  }

  onTransition(watcher: TransitionWatcher): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** What is kept has no sinks. */
  emit(output: Output): void {
    const sinks = this.byType.get(output.type);
    if (sinks === undefined) return;
    for (const sink of sinks) {
      try {
        sink(output as never);
      } catch (error) {
        this.failed(error);
      }
    }
  }

  transition(committed: Committed, event: MachineEvent, from: Parameters<TransitionWatcher>[2]): void {
    for (const watch of this.watchers) {
      try {
        watch(committed, event, from);
      } catch (error) {
        this.failed(error);
      }
    }
  }

  private failed(error: unknown): void {
    this.log.error({ err: error }, 'a sink failed');
  }
}
