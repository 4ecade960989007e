import { describe, expect, it, vi } from 'vitest';
import type { Committed } from '../../src/actors/contract.ts';
import type { Output } from '../../src/machines/outputs.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { clock, event, make, memory, ref, runtime, warnings, withRuntime } from './runtime-fixture.ts';

withRuntime();

describe('watches', () => {
  it('remember which command received a state that did not match', async () => {
    await make('c1', 'command');
    await make('c2', 'command');
    const emit = (output: Output) => runtime.eventBus.emit(output);
    emit({ type: 'verification.watch', deviceId: 'd', commandId: 'c1', expected: { on: true } });
    expect(runtime.watches.forDevice('d')).toHaveLength(1);
    const observed = { type: 'state.observed', at: clock.now(), deviceId: 'd' } as never;
    await runtime.actors.send(ref('c1', 'command'), observed);
    expect(runtime.watches.forDevice('d')[0]?.seen).toBe(false);
    const { eventBus, actors } = runtime;
    const committed = (await actors.read(ref('c1', 'command'))) as Committed;
    eventBus.emitTransition(committed, observed, null);
    expect(runtime.watches.forDevice('d')[0]?.seen).toBe(true);
    eventBus.emitTransition({ ...committed, ref: ref('c2', 'command') }, observed, null);
    eventBus.emitTransition({ ...committed, ref: ref('c1') }, observed, null);
    eventBus.emitTransition(committed, event('ack.received'), null);
    expect(runtime.watches.forDevice('d')).toHaveLength(1);
  });
});

describe('watches that are loaded while commands continue', () => {
  const watched = (commandId: string) => ({ deviceId: 'd', commandId, expected: { on: true }, seen: false });
  const emit = (output: Output) => runtime.eventBus.emit(output);
  const watch = (commandId: string) =>
    emit({ type: 'verification.watch', deviceId: 'd', commandId, expected: { on: true } });
  const unwatch = (commandId: string) => emit({ type: 'verification.unwatch', deviceId: 'd', commandId });
  const known = () => runtime.watches.forDevice('d').map(({ commandId }) => commandId);

  it('do not reappear for a command that has ended', async () => {
    watch('c1');
    let goOn = () => {};
    const gate = new Promise<void>((resolve) => (goOn = resolve));
    let reads = 0;
    memory.store.commands.awaitingVerification = async () => {
      await gate;
      reads += 1;
      return reads === 1 ? [watched('c1'), watched('c2')] : [watched('c2'), watched('c3')];
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
    memory.requested.watching = [watched('c2')];
    await runtime.watches.load();
    expect(known()).toEqual(['c2']);
  });

  it('are reloaded once more for all requests during a load', async () => {
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    let reads = 0;
    memory.store.commands.awaitingVerification = async () => {
      reads += 1;
      await gate;
      return reads === 1 ? [] : [watched('c1')];
    };
    runtime.watches.reload();
    await eventually(() => reads === 1);
    for (let request = 0; request < 5; request += 1) runtime.watches.reload();
    open();
    // Loads run one after another, so the requested ones have ended.
    await runtime.watches.load();
    expect(reads).toBe(3);
    expect(known()).toEqual(['c1']);
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
      memory.requested.watching = [watched('c1')];
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
