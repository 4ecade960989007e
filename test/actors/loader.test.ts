import { describe, expect, it } from 'vitest';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { clock, event, leave, make, outputTo, ref, restart, runtime, store, withRuntime } from './runtime-fixture.ts';

withRuntime();

describe('loading', () => {
  it('rejects each caller at its deadline, independent of other callers', async () => {
    await make('a');
    runtime.halt();
    restart({ callerTimeoutMs: 250 });
    let away = true;
    store.beforeLoad = () => {
      if (!away) return;
      clock.advance(100);
      throw new StoreUnavailable('gone');
    };
    leave('b', outputTo('a'));
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
    restart();
    let failures = 2;
    store.beforeLoad = () => {
      if (failures-- > 0) throw new StoreUnavailable('gone');
    };
    expect((await runtime.actors.send(ref('a'), event('press'))).version).toBe(2);
    runtime.halt();
    restart();
    store.beforeLoad = () => {
      throw new Error('a bug');
    };
    await expect(runtime.actors.read(ref('a'))).rejects.toThrow('a bug');
  });

  it('reads an actor once for concurrent callers', async () => {
    await make('a');
    runtime.halt();
    restart();
    const loads = store.loads.length;
    await Promise.all([1, 2, 3].map(() => runtime.actors.read(ref('a'))));
    expect(store.loads.length - loads).toBe(1);
  });
});
