import { afterEach, beforeEach } from 'vitest';
import { Runtime } from '../../../src/actors/runtime.ts';
import type { RuntimeLimits } from '../../../src/actors/runtime-limits.ts';
import type { MachineDefinition } from '../../../src/machines/definition.ts';
import { type TestClock, testClock } from '../../support/clock.ts';
import type { CommittedBatch } from '../../support/committed-batch.ts';
import { MemoryActorStore, makeRuntimeStore } from '../../support/memory-actor-store.ts';
import { type RelayedMessage, relayMachine, relayRef } from '../../support/relay-machine.ts';

/** A runtime whose actors are of the relay machine: each sends the messages of its `send` events. */

export let store: MemoryActorStore;
export let clock: TestClock;
export let runtime: Runtime;
/** The messages logged as errors. */
export let errors: string[];

/** Replaces the runtime by a new one on the same store. */
export function restart(limits: Partial<RuntimeLimits> = {}, batchesInFlight = 1, definition = relayMachine): void {
  runtime = new Runtime({
    store: makeRuntimeStore(store, { batchesInFlight }).store,
    definitions: () => definition as unknown as MachineDefinition,
    clock,
    log: { debug() {}, info() {}, warn() {}, error: (_, message) => errors.push(message) },
    limits,
  });
}

/** Replaces the runtime and its store by new ones. */
export function restartEmpty(...options: Parameters<typeof restart>): void {
  runtime.halt();
  store = new MemoryActorStore();
  restart(...options);
}

/** Starts a runtime with the actors a, b and c before each test of the file, and halts it afterwards. */
export function withRelays(): void {
  beforeEach(async () => {
    store = new MemoryActorStore();
    clock = testClock();
    errors = [];
    restart();
    await create('a', 'b', 'c');
    store.commits = [];
  });
  afterEach(() => {
    store.beforeCommit = () => {};
    store.afterCommit = () => {};
    runtime.halt();
  });
}

export const create = (...ids: string[]) =>
  Promise.all(ids.map((id) => runtime.actors.create(relayRef(id), { type: 'create', at: clock.now(), id } as never)));
export const send = (from: string, ...messages: RelayedMessage[]) =>
  runtime.actors.send(relayRef(from), { type: 'send', at: clock.now(), messages } as never);
export const contextOf = (id: string) =>
  store.rows.get(`device:${id}`)?.context as unknown as { sent: RelayedMessage[]; received: RelayedMessage[] };
export const receivedBy = (id: string) => contextOf(id).received.map(([, text]) => text);
/** The actors of each commit, and its number of outbox rows. */
export const written = (batches: readonly CommittedBatch[]) =>
  batches.map(({ actors }) => [
    actors.map(({ ref }) => ref.id).join(''),
    actors.reduce((sum, { outbox }) => sum + outbox.length, 0),
  ]);

/** Holds commits back; calling an entry of the result releases one commit. */
export function gates(): (() => void)[] {
  const held: (() => void)[] = [];
  store.beforeCommit = () => new Promise<void>((resolve) => held.push(resolve));
  return held;
}
