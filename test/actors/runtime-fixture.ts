import { afterEach, beforeEach } from 'vitest';
import { Runtime } from '../../src/actors/runtime.ts';
import type { RuntimeLimits } from '../../src/actors/runtime-limits.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import type { ActorRef, DurableOutput } from '../../src/machines/outputs.ts';
import { type TestClock, testClock } from '../support/clock.ts';
import { lamp, MemoryActorStore, makeRuntimeStore } from '../support/memory-actor-store.ts';

type Definitions = ConstructorParameters<typeof Runtime>[0]['definitions'];

export let store: MemoryActorStore;
export let memory: ReturnType<typeof makeRuntimeStore>;
export let clock: TestClock;
export let runtime: Runtime;
export let warnings: string[];
/** The arguments of each call of the log's `error`. */
export let errors: unknown[][];

export const ref = (id: string, kind: ActorRef['kind'] = 'device'): ActorRef => ({ kind, id });
export const event = (type: string, more: object = {}) => ({ type, at: clock.now(), ...more });
export const make = (id: string, kind: ActorRef['kind'] = 'device') =>
  runtime.actors.create(ref(id, kind), event('make', { id }));

const lamps: Definitions = () => lamp as unknown as MachineDefinition;

interface Options {
  definitions?: Definitions;
  batchesInFlight?: number;
}

/** A second runtime on the same store. `runtime` is unchanged. */
export function assemble(limits: Partial<RuntimeLimits> = {}, options: Options = {}): Runtime {
  const { definitions = lamps, batchesInFlight = 1 } = options;
  memory = makeRuntimeStore(store, { batchesInFlight });
  return new Runtime({
    store: memory.store,
    definitions,
    clock,
    limits,
    log: {
      debug() {},
      info() {},
      warn: (_, message) => warnings.push(message),
      error: (...logged) => errors.push(logged),
    },
  });
}

/** Starts a runtime on an empty store before each test of the file, and halts it afterwards. */
export function withRuntime(): void {
  beforeEach(() => {
    store = new MemoryActorStore();
    clock = testClock();
    warnings = [];
    errors = [];
    runtime = assemble();
  });
  afterEach(() => {
    store.beforeCommit = () => {};
    store.afterCommit = () => {};
    runtime.halt();
  });
}

/** Replaces the runtime by a new one on the same store. */
export function restart(limits?: Partial<RuntimeLimits>, options?: Options): void {
  runtime = assemble(limits, options);
}

export function leave(from: string, output: DurableOutput): void {
  store.outbox.set(`device:${from}:9:${store.outbox.size}`, {
    from: ref(from),
    version: 9,
    n: store.outbox.size,
    output,
  });
}
export const outputTo = (to: string): DurableOutput => ({
  type: 'actor.tell',
  to: ref(to),
  event: { type: 'device.revoked', deviceId: 'x' },
});
