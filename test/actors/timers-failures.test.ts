import { describe, expect, it, vi } from 'vitest';
import { Overloaded, Quarantined } from '../../src/actors/contract.ts';
import type { Supervisor } from '../../src/actors/supervisor.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import type { StoredActor } from '../../src/store/contract/actor-rows.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { eventLoopTurns } from '../support/clock.ts';
import { lamp } from '../support/memory-actor-store.ts';
import { clock, event, make, ref, restart, runtime, store, warnings, withRuntime } from './runtime-fixture.ts';

withRuntime();

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
    restart();
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
    restart();
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
    restart(
      {},
      {
        definitions: (_, version) => {
          if (version === 9) throw new RangeError('there is no version 9 in this build');
          return lamp as unknown as MachineDefinition;
        },
      },
    );
    clock.advance(1_000);
    await runtime.timers.tick();
    expect(store.rows.get('device:c')?.value).toBe('off');
    await expect(runtime.actors.send(ref('x0'), event('press'))).rejects.toThrow(Quarantined);
  });

  it('are not retried immediately if none can be fired now', async () => {
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
      vi.spyOn(store, 'dueTimers').mockImplementationOnce(async (...args) => {
        const due = await dueTimers(...args);
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
