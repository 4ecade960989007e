import { describe, expect, it } from 'vitest';
import { NoSuchActor, Overloaded, Quarantined } from '../../src/actors/contract.ts';
import { eventually } from '../support/clock.ts';
import { assemble, clock, event, make, ref, restart, runtime, store, withRuntime } from './runtime-fixture.ts';

withRuntime();

describe('mailboxes and memory', () => {
  it('are bounded per actor and in total', async () => {
    restart({ mailboxEvents: 2, pendingEvents: 3 });
    await Promise.all([make('a'), make('b')]);
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    store.beforeCommit = () => gate;
    const first = runtime.actors.send(ref('a'), event('press'));
    const second = runtime.actors.send(ref('a'), event('press'));
    await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow(Overloaded);
    const third = runtime.actors.send(ref('b'), event('press'));
    await expect(runtime.actors.send(ref('b'), event('press'))).rejects.toThrow(Overloaded);
    await expect(runtime.actors.create(ref('c'), event('make', { id: 'c' }))).rejects.toThrow(Overloaded);
    open();
    await Promise.all([first, second, third]);
  });

  it('passivates idle actors and, beyond the limit, the least recently used ones, and loads them on demand', async () => {
    restart({ liveActors: 2, idleMs: 1_000 });
    for (const id of ['a', 'b', 'c']) {
      await make(id);
      clock.advance(10);
    }
    const live = () => runtime.actors.stats().live;
    await eventually(() => live() === 2);
    expect(runtime.actors.peek(ref('a'))).toBeUndefined();
    expect((await runtime.actors.send(ref('a'), event('press'))).version).toBe(2);
    await eventually(() => live() === 2);
    expect(runtime.actors.peek(ref('b'))).toBeUndefined();
    expect(runtime.actors.passivate()).toBe(0);
    clock.advance(1_000);
    expect(runtime.actors.passivate()).toBe(2);
    const loads = store.loads.length;
    expect((await runtime.actors.readAll('device', ['a', 'b', 'nobody'])).size).toBe(2);
    expect(store.loads.length - loads).toBe(1);
  });

  it('passivates an actor in a final state and reads it from the store', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    await runtime.actors.send(ref('a'), event('break'));
    expect(runtime.actors.stats().live).toBe(0);
    expect((await runtime.actors.read(ref('a')))?.snapshot.value).toBe('broken');
  });

  it('rejects an event for an actor that does not exist, and reads null', async () => {
    await expect(runtime.actors.send(ref('nobody'), event('press'))).rejects.toThrow(NoSuchActor);
    expect(await runtime.actors.read(ref('nobody'))).toBeNull();
  });

  it('quarantines an actor whose stored context is invalid', async () => {
    await make('a');
    const row = store.rows.get('device:a');
    if (row) row.context = { pressed: 'often' };
    const other = assemble();
    await expect(other.actors.send(ref('a'), event('press'))).rejects.toThrow(Quarantined);
  });
});
