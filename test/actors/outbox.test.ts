import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Overloaded, Quarantined } from '../../src/actors/contract.ts';
import { createRuntime, type Runtime } from '../../src/actors/runtime.ts';
import type { RuntimeLimits } from '../../src/actors/runtime-limits.ts';
import type { Supervisor } from '../../src/actors/supervisor.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import type { ActorRef, DurableOutput, Output } from '../../src/machines/outputs.ts';
import type { StoredActor } from '../../src/store/contract/actor-rows.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { eventLoopTurns, eventually, type TestClock, testClock } from '../support/clock.ts';
import { lamp, MemoryActorStore, makeRuntimeStore } from '../support/memory-actor-store.ts';

// Behaviour of the runtime when a store, a target or a subscriber fails.

let store: MemoryActorStore;
let memory: ReturnType<typeof makeRuntimeStore>;
let clock: TestClock;
let runtime: Runtime;
let warnings: string[];

const ref = (id: string, kind: ActorRef['kind'] = 'device'): ActorRef => ({ kind, id });
const event = (type: string, more: object = {}) => ({ type, at: clock.now(), ...more });
const make = (id: string, kind: ActorRef['kind'] = 'device') =>
  runtime.actors.create(ref(id, kind), event('make', { id }));

function assemble(limits: Partial<RuntimeLimits> = {}): Runtime {
  memory = makeRuntimeStore(store);
  return createRuntime({
    store: memory.store,
    definitions: () => lamp as unknown as MachineDefinition,
    clock,
    limits,
    log: { debug() {}, info() {}, warn: (_, message) => warnings.push(message), error() {} },
  });
}

beforeEach(() => {
  store = new MemoryActorStore();
  clock = testClock();
  warnings = [];
  runtime = assemble();
});
afterEach(() => runtime.halt());

function leave(from: string, output: DurableOutput): void {
  store.outbox.set(`device:${from}:9:${store.outbox.size}`, {
    from: ref(from),
    version: 9,
    n: store.outbox.size,
    output,
  });
}
const tell = (to: string): DurableOutput => ({
  type: 'actor.tell',
  to: ref(to),
  event: { type: 'device.revoked', deviceId: 'x' },
});

describe('the outbox', () => {
  it('keeps messages for a quarantined target, and delivers them after its release', async () => {
    await make('a');
    const row = store.rows.get('device:a');
    if (row) row.quarantine = 'three throws';
    runtime.halt();
    runtime = assemble();
    leave('b', tell('a'));
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(1);
    expect(warnings).toContain('outbox delivery failed; retrying');
    await runtime.actors.releaseQuarantine(ref('a'));
    await eventually(() => store.outbox.size === 0);
    expect(store.rows.get('device:a')?.context.note).toBe('told x');
  });

  it('tries undeliverable messages once per sweep, however many there are', async () => {
    await make('a');
    const row = store.rows.get('device:a');
    if (row) row.quarantine = 'three throws';
    runtime.halt();
    runtime = assemble();
    for (let index = 0; index < 1_100; index += 1) leave('b', tell('a'));
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(1_100);
    expect(warnings).toEqual(Array(2).fill('outbox delivery failed; retrying'));
    runtime.outbox.stop();
  });

  it('delivers messages behind many undeliverable ones', async () => {
    await make('a');
    await make('c');
    const row = store.rows.get('device:a');
    if (row) row.quarantine = 'three throws';
    runtime.halt();
    runtime = assemble();
    for (let index = 0; index < 2_000; index += 1) leave('b', tell('a'));
    leave('b', tell('c'));
    await runtime.outbox.sweep();
    expect(store.rows.get('device:c')?.context.note).toBe('told x');
    expect(store.outbox.size).toBe(2_000);
    runtime.outbox.stop();
  });

  it('sweeps once more if a sweep was requested during a sweep', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    try {
      const pending = vi.spyOn(store, 'pendingOutbox');
      await Promise.all([runtime.outbox.sweep(), runtime.outbox.sweep(), runtime.outbox.sweep()]);
      expect(pending).toHaveBeenCalledTimes(1);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(pending).toHaveBeenCalledTimes(2);
      await vi.advanceTimersByTimeAsync(100_000);
      expect(pending).toHaveBeenCalledTimes(2);
    } finally {
      vi.useRealTimers();
    }
  });

  it('does not sweep after its stop, even if the stop came during a sweep', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    try {
      const pending = vi.spyOn(store, 'pendingOutbox').mockRejectedValue(new StoreUnavailable('closed'));
      const sweeping = runtime.outbox.sweep();
      runtime.outbox.stop();
      await sweeping;
      await vi.advanceTimersByTimeAsync(10_000);
      expect(pending).toHaveBeenCalledTimes(1);
    } finally {
      vi.useRealTimers();
    }
  });

  it('retries messages for a quarantined target every half minute, unless something else is due sooner', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    try {
      await make('a');
      const row = store.rows.get('device:a');
      if (row) row.quarantine = 'three throws';
      runtime.halt();
      runtime = assemble();
      leave('b', tell('a'));
      const pending = vi.spyOn(store, 'pendingOutbox');
      await runtime.outbox.sweep();
      await vi.advanceTimersByTimeAsync(29_999);
      expect(pending).toHaveBeenCalledTimes(1);
      await vi.advanceTimersByTimeAsync(1);
      expect(pending).toHaveBeenCalledTimes(2);
      pending.mockRejectedValueOnce(new StoreUnavailable('gone'));
      await runtime.outbox.sweep();
      await vi.advanceTimersByTimeAsync(1_000);
      expect(pending).toHaveBeenCalledTimes(4);
    } finally {
      vi.useRealTimers();
    }
  });

  it('drops a message on which the target throws', async () => {
    await make('a');
    const original = lamp.journal;
    lamp.journal = () => {
      throw new Error('no note');
    };
    leave('b', tell('a'));
    await runtime.outbox.sweep();
    lamp.journal = original;
    await eventually(() => store.outbox.size === 0);
    expect(store.rows.get('device:a')?.context.note).toBeNull();
  });

  it('waits while the store is unavailable, and reports the age of the oldest message', async () => {
    let away = true;
    const pending = store.pendingOutbox.bind(store);
    store.pendingOutbox = async (limit, after) => {
      if (away) throw new StoreUnavailable('gone');
      return pending(limit, after);
    };
    await make('a');
    leave('b', tell('a'));
    expect(runtime.outbox.age()).toBe(0);
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(1);
    away = false;
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    store.beforeCommit = () => gate;
    await eventually(() => runtime.actors.stats().waiting === 1);
    clock.advance(7_000);
    expect(runtime.outbox.age()).toBe(7_000);
    open();
    await eventually(() => store.outbox.size === 0);
  });

  it('queries the open commands of a device again after the store was unavailable', async () => {
    await make('c1', 'command');
    memory.asked.open = ['c1'];
    const open = memory.store.commands.open;
    let away = true;
    memory.store.commands.open = async (deviceId) => {
      if (away) throw new StoreUnavailable('gone');
      return open(deviceId);
    };
    leave('a', { type: 'commands.tell', deviceId: 'a', event: { type: 'device.revoked', deviceId: 'a' } });
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(1);
    away = false;
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(0);
    expect(store.rows.get('command:c1')?.context.note).toBe('told a');
  });
});

describe('timers', () => {
  it('are retried when their actor is quarantined or the store is unavailable', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    clock.advance(1_000);
    const due = store.dueTimers.bind(store);
    store.dueTimers = async () => {
      throw new StoreUnavailable('gone');
    };
    await runtime.timers.tick();
    expect(warnings).toContain('timer read failed; retrying');
    store.dueTimers = due;
    const row = store.rows.get('device:a');
    if (row) row.quarantine = 'three throws';
    runtime.halt();
    runtime = assemble();
    await runtime.timers.tick();
    expect(warnings).toContain('timer event failed; retrying');
    expect([...store.timers.values()].map(({ dueAt }) => dueAt)).toEqual([clock.now() + 30_000]);
    await runtime.actors.releaseQuarantine(ref('a'));
    clock.advance(30_000);
    await runtime.timers.tick();
    expect(store.rows.get('device:a')?.value).toBe('off');
    expect(runtime.timers.due).toBe(0);
  });

  it('of many quarantined actors do not block the timers of other actors', async () => {
    await make('a');
    await make('c');
    await runtime.actors.send(ref('c'), event('press'));
    const row = store.rows.get('device:a');
    if (row) row.quarantine = 'three throws';
    runtime.halt();
    runtime = assemble();
    for (let index = 0; index < 1_500; index += 1) {
      store.timers.set(`device:a:${index}`, { ref: ref('a'), id: String(index), event: 'x', dueAt: clock.now() });
    }
    clock.advance(1_000);
    await runtime.timers.tick();
    expect(store.rows.get('device:c')?.value).toBe('off');
    expect(warnings).toEqual(Array(2).fill('timer event failed; retrying'));
  });

  it('of many actors of an unknown machine version do not block the timers of other actors', async () => {
    const others = Array.from({ length: 1_001 }, (_, n) => `x${n}`);
    await Promise.all(['c', ...others].map((id) => make(id)));
    await runtime.actors.send(ref('c'), event('press'));
    for (const id of others) {
      (store.rows.get(`device:${id}`) as StoredActor).machineVersion = 9;
      store.timers.set(`device:${id}:x`, { ref: ref(id), id: 'x', event: 'x', dueAt: clock.now() });
    }
    runtime.halt();
    runtime = createRuntime({
      store: memory.store,
      definitions: (_, version) => {
        if (version === 9) throw new RangeError('there is no version 9 in this build');
        return lamp as unknown as MachineDefinition;
      },
      clock,
      log: { debug() {}, info() {}, warn() {}, error() {} },
    });
    clock.advance(1_000);
    await runtime.timers.tick();
    expect(store.rows.get('device:c')?.value).toBe('off');
    await expect(runtime.actors.send(ref('x0'), event('press'))).rejects.toThrow(Quarantined);
  });

  it('of which none can be fired now are not retried immediately', async () => {
    await make('a');
    for (let index = 0; index < 1_500; index += 1) {
      store.timers.set(`device:a:${index}`, { ref: ref('a'), id: String(index), event: 'x', dueAt: clock.now() });
    }
    const due = vi.spyOn(store, 'dueTimers');
    vi.spyOn(runtime.actors as unknown as Supervisor, 'sendWith').mockRejectedValue(new Overloaded('too much waits'));
    await runtime.timers.tick();
    expect(due).toHaveBeenCalledTimes(2);
    expect(warnings).toEqual(['timer event failed; retrying']);
  });

  it('are fired once while a pass is in progress', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    clock.advance(1_000);
    const commits = store.commits.length;
    await Promise.all([runtime.timers.tick(), runtime.timers.tick()]);
    expect(store.commits.length - commits).toBe(1);
  });

  it('fire on time even if they were set while the next one was queried', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      await make('a');
      const nextTimerAt = store.nextTimerAt.bind(store);
      let goOn = () => {};
      store.nextTimerAt = async () => {
        const read = await nextTimerAt();
        await new Promise<void>((resolve) => (goOn = resolve));
        return read;
      };
      runtime.timers.start();
      await vi.advanceTimersByTimeAsync(0);
      await runtime.actors.send(ref('a'), event('press'));
      goOn();
      await vi.advanceTimersByTimeAsync(0);
      store.nextTimerAt = nextTimerAt;
      clock.advance(1_000);
      await vi.advanceTimersByTimeAsync(1_000);
    } finally {
      vi.useRealTimers();
    }
    // No timer of the runtime is a real one: each has fired already, or never will.
    for (let pass = 0; pass < 50; pass += 1) await new Promise(setImmediate);
    expect(store.rows.get('device:a')?.value).toBe('off');
  });

  it('that become due during a pass are fired next', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      await make('a');
      await runtime.actors.send(ref('a'), event('press'));
      clock.advance(999);
      const dueTimers = store.dueTimers.bind(store);
      vi.spyOn(store, 'dueTimers').mockImplementationOnce(async (...asked) => {
        const due = await dueTimers(...asked);
        clock.advance(5);
        return due;
      });
      runtime.timers.start();
      await vi.advanceTimersByTimeAsync(10);
    } finally {
      vi.useRealTimers();
    }
    for (let pass = 0; pass < 50; pass += 1) await new Promise(setImmediate);
    expect(store.rows.get('device:a')?.value).toBe('off');
  });

  it('stop when the runtime stops', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      runtime.timers.start();
      runtime.timers.stop();
      runtime.timers.stop();
      clock.advance(1_000);
      await vi.advanceTimersByTimeAsync(60_000);
    } finally {
      vi.useRealTimers();
    }
    await eventLoopTurns();
    expect(store.rows.get('device:a')?.value).toBe('on');
  });
});

describe('watches', () => {
  it('remember which command received a state that did not match', async () => {
    await make('c1', 'command');
    await make('c2', 'command');
    const emit = (output: Output) =>
      (runtime.actors as unknown as { eventBus: { emit(output: Output): void } }).eventBus.emit(output);
    emit({ type: 'verification.watch', deviceId: 'd', commandId: 'c1', expected: { on: true } });
    expect(runtime.watches.forDevice('d')).toHaveLength(1);
    const observed = { type: 'state.observed', at: clock.now(), deviceId: 'd' } as never;
    await runtime.actors.send(ref('c1', 'command'), observed);
    expect(runtime.watches.forDevice('d')[0]?.seen).toBe(false);
    const watcher = (runtime.actors as unknown as { eventBus: { emitTransition(...all: unknown[]): void } }).eventBus;
    watcher.emitTransition({ ref: ref('c1', 'command') }, observed, null);
    expect(runtime.watches.forDevice('d')[0]?.seen).toBe(true);
    watcher.emitTransition({ ref: ref('c2', 'command') }, observed, null);
    watcher.emitTransition({ ref: ref('c1') }, observed, null);
    watcher.emitTransition({ ref: ref('c1', 'command') }, event('ack.received'), null);
    expect(runtime.watches.forDevice('d')).toHaveLength(1);
  });
});

describe('watches that are loaded while commands continue', () => {
  const watched = (commandId: string) => ({ deviceId: 'd', commandId, expected: { on: true }, seen: false });
  const emit = (output: Output) =>
    (runtime.actors as unknown as { eventBus: { emit(output: Output): void } }).eventBus.emit(output);
  const watch = (commandId: string) =>
    emit({ type: 'verification.watch', deviceId: 'd', commandId, expected: { on: true } });
  const unwatch = (commandId: string) => emit({ type: 'verification.unwatch', deviceId: 'd', commandId });
  const known = () => runtime.watches.forDevice('d').map(({ commandId }) => commandId);

  it('do not reappear for a command that has ended', async () => {
    watch('c1');
    let goOn = () => {};
    const gate = new Promise<void>((resolve) => (goOn = resolve));
    memory.store.commands.awaitingVerification = async () => {
      await gate;
      return [watched('c1'), watched('c2')];
    };
    const reading = runtime.watches.load();
    const again = runtime.watches.load();
    unwatch('c1');
    watch('c3');
    goOn();
    await Promise.all([reading, again]);
    expect(known().toSorted()).toEqual(['c2', 'c3']);
  });

  it('are removed if the end of the command was in a commit with an unknown outcome', async () => {
    watch('c1');
    watch('c2');
    memory.asked.watching = [watched('c2')];
    await runtime.watches.load();
    expect(known()).toEqual(['c2']);
  });

  it('are not loaded after the runtime has stopped', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const watching = vi.fn(() => Promise.reject(new StoreUnavailable('gone')));
      memory.store.commands.awaitingVerification = watching;
      runtime.watches.reload();
      await vi.advanceTimersByTimeAsync(1_000);
      expect(watching).toHaveBeenCalledTimes(2);
      runtime.halt();
      await vi.advanceTimersByTimeAsync(10_000);
      expect(watching).toHaveBeenCalledTimes(2);
    } finally {
      vi.useRealTimers();
    }
  });

  it('are loaded once the store is available', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      memory.asked.watching = [watched('c1')];
      const { awaitingVerification } = memory.store.commands;
      let away = 3;
      memory.store.commands.awaitingVerification = async () => {
        if (away-- > 0) throw new StoreUnavailable('gone');
        return awaitingVerification();
      };
      await make('a');
      await runtime.actors.releaseQuarantine(ref('a'));
      await vi.advanceTimersByTimeAsync(3_000);
      expect(known()).toEqual(['c1']);
      expect(warnings.filter((text) => text === 'verification watch load failed; retrying')).toHaveLength(3);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('loading', () => {
  it('rejects each caller at its deadline, independent of other callers', async () => {
    await make('a');
    runtime.halt();
    runtime = assemble({ callerTimeoutMs: 250 });
    let away = true;
    store.beforeLoad = () => {
      if (away) throw new StoreUnavailable('gone');
    };
    leave('b', tell('a'));
    const swept = runtime.outbox.sweep();
    await expect(runtime.actors.read(ref('a'))).rejects.toThrow(StoreUnavailable);
    expect(store.outbox.size).toBe(1);
    away = false;
    await swept;
    expect(store.outbox.size).toBe(0);
  });

  it("waits for an unavailable store until the caller's deadline", async () => {
    await make('a');
    runtime.halt();
    runtime = assemble();
    let failures = 2;
    store.beforeLoad = () => {
      if (failures-- > 0) throw new StoreUnavailable('gone');
    };
    expect((await runtime.actors.send(ref('a'), event('press'))).version).toBe(2);
    runtime.halt();
    runtime = assemble();
    store.beforeLoad = () => {
      throw new Error('a bug');
    };
    await expect(runtime.actors.read(ref('a'))).rejects.toThrow('a bug');
  });

  it('reads an actor once for concurrent callers', async () => {
    await make('a');
    runtime.halt();
    runtime = assemble();
    const loads = store.loads.length;
    await Promise.all([1, 2, 3].map(() => runtime.actors.read(ref('a'))));
    expect(store.loads.length - loads).toBe(1);
  });
});

describe('a stale actor', () => {
  it('whose row was deleted refuses its pending events', async () => {
    await make('a');
    store.rows.delete('device:a');
    await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow('device:a');
  });
});
