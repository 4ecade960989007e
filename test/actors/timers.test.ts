import { afterEach, beforeEach, expect, it } from 'vitest';
import { createRuntime, type Runtime } from '../../src/actors/runtime.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import type { ActorRef } from '../../src/machines/outputs.ts';
import { eventually, type TestClock, testClock } from '../support/clock.ts';
import { lamp, MemoryActorStore, makeRuntimeStore } from '../support/memory-actor-store.ts';

const LAMP: ActorRef = { kind: 'device', id: 'a' };
const silent = { debug() {}, info() {}, warn() {}, error() {} };

let store: MemoryActorStore;
let clock: TestClock;
let runtime: Runtime;
let held: boolean;
let open: () => void;

const send = (type: string) => runtime.actors.send(LAMP, { type, at: clock.now() });

/** Holds commits back until `open` is called. */
function hold(): void {
  const { promise, resolve } = Promise.withResolvers<void>();
  held = false;
  open = resolve;
  store.beforeCommit = () => {
    held = true;
    return promise;
  };
}

beforeEach(async () => {
  store = new MemoryActorStore();
  clock = testClock();
  const definitions = () => lamp as unknown as MachineDefinition;
  runtime = createRuntime({ store: makeRuntimeStore(store).store, definitions, clock, log: silent });
  await runtime.actors.create(LAMP, { type: 'make', at: clock.now(), id: 'a' } as never);
  await send('press');
  clock.advance(1_000); // the lamp is on, and its timer is due
});
afterEach(() => {
  store.beforeCommit = () => {};
  runtime.halt();
});

/** The lamp was turned off and on after its timer had fired: the new timer counts. */
async function staysOn(): Promise<void> {
  expect(runtime.actors.peek(LAMP)?.snapshot.value).toBe('on');
  expect([...store.timers.values()].map(({ dueAt }) => dueAt)).toEqual([clock.now() + 1_000]);
  clock.advance(1_000);
  await runtime.timers.tick();
  expect(runtime.actors.peek(LAMP)?.snapshot.value).toBe('off');
}

it('a fired timer does not end its state if an earlier event left and entered that state again', async () => {
  hold();
  const sent = [runtime.actors.send(LAMP, { type: 'note', at: clock.now(), text: 'x' } as never)];
  await eventually(() => held);
  sent.push(send('press'), send('press'));
  const fired = runtime.timers.tick();
  await eventually(() => runtime.actors.inspect(LAMP).mailbox === 3);
  open();
  await Promise.all([...sent, fired]);
  await staysOn();
});

it('a fired timer does not end its state if a commit in flight left and entered that state again', async () => {
  hold();
  const sent = [send('press'), send('press')];
  await eventually(() => held);
  const fired = runtime.timers.tick();
  await eventually(() => runtime.actors.inspect(LAMP).mailbox === 1);
  open();
  await Promise.all([...sent, fired]);
  await staysOn();
});

it('a timer that comes due while others are fired is fired when `tick` resolves', async () => {
  const { dueTimers } = store;
  const { promise, resolve: go } = Promise.withResolvers<void>();
  // A timer query that starts before the lamp's timer is due, and ends after it.
  store.dueTimers = async (now, limit) => {
    store.dueTimers = dueTimers;
    const due = await store.dueTimers(now - 1_000, limit);
    await promise;
    return due;
  };
  const running = runtime.timers.tick();
  const ticks = [runtime.timers.tick(), runtime.timers.tick()];
  go();
  await Promise.all(ticks);
  expect(runtime.actors.peek(LAMP)?.snapshot.value).toBe('off');
  await running;
});
