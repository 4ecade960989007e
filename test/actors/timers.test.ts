import { beforeEach, describe, expect, it } from 'vitest';
import { CommitUnknown } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { clock, event, make, ref, restart, runtime, store, withRuntime } from './runtime-fixture.ts';

withRuntime();

describe('timers', () => {
  it('are rows in the commit of the transition that sets them, and fire once', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    expect([...store.timers.values()].map((timer) => timer.dueAt)).toEqual([clock.now() + 1_000]);
    await runtime.timers.tick();
    expect((await runtime.actors.read(ref('a')))?.snapshot.value).toBe('on');
    clock.advance(1_000);
    await runtime.timers.tick();
    expect((await runtime.actors.read(ref('a')))?.snapshot.value).toBe('off');
    expect(store.timers.size).toBe(0);
  });

  it('are cleared when their state is left, and set again when it is entered again', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    clock.advance(500);
    await runtime.actors.send(ref('a'), event('remake'));
    expect([...store.timers.values()].map((timer) => timer.dueAt)).toEqual([clock.now() + 1_000]);
    await runtime.actors.send(ref('a'), event('press'));
    expect(store.timers.size).toBe(0);
  });

  it('survive the process, and a fired one is an event that no state handles', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    const timer = [...store.timers.values()][0];
    runtime.halt();
    restart();
    clock.advance(5_000);
    await runtime.timers.tick();
    expect((await runtime.actors.read(ref('a')))?.snapshot.value).toBe('off');
    if (timer) store.timers.set('again', { ...timer, id: 'again', event: 'long.gone' });
    const lost = { ref: ref('nobody'), id: 'x', event: 'x', dueAt: 0 };
    store.timers.set('device:nobody:x', lost);
    await runtime.timers.tick();
    expect(store.commits.at(-1)?.actors[0]?.value).toBe('off');
    expect(store.timers.has('device:nobody:x')).toBe(false);
  });

  it('exist again if the batch in which they fired sets them again, even for a time in the past', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    clock.advance(1_000);
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    let held = false;
    store.beforeCommit = () => {
      held = true;
      return gate;
    };
    const sent = [runtime.actors.send(ref('a'), event('note', { text: 'holds the batch' }))];
    await eventually(() => held);
    sent.push(runtime.actors.send(ref('a'), event('press')));
    const fired = runtime.timers.tick();
    await eventually(() => runtime.actors.stats().waiting === 3);
    sent.push(runtime.actors.send(ref('a'), event('press', { at: clock.now() - 1_000 })));
    open();
    await Promise.all([...sent, fired]);
    expect(store.timers.size).toBe(1);
    await runtime.timers.tick();
    expect(runtime.actors.peek(ref('a'))?.snapshot.value).toBe('off');
  });

  it('on which their machine throws are retried an hour later', async () => {
    await make('a');
    store.timers.set('device:a:x', { ref: ref('a'), id: 'x', event: 'boom', dueAt: clock.now() });
    for (let hour = 1; hour <= 4; hour += 1) {
      await runtime.timers.tick();
      expect(store.timers.get('device:a:x')?.dueAt).toBe(clock.now() + 3_600_000);
      clock.advance(3_600_000);
    }
    expect(store.quarantines).toEqual([]);
  });

  it('fire by themselves once the runtime has started', async () => {
    await runtime.start();
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    clock.advance(1_000);
    await eventually(() => runtime.actors.peek(ref('a'))?.snapshot.value === 'off');
    await runtime.stop();
  });
});

it('timers that a commit with an unknown outcome has set fire in time', async () => {
  restart({ deviceTimeoutMs: 100 });
  await runtime.start();
  await make('a');
  await runtime.timers.tick();
  let away = true;
  store.afterCommit = () => {
    if (away) throw new CommitUnknown('connection lost');
  };
  await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow(CommitUnknown);
  away = false;
  clock.advance(1_000);
  await eventually(() => store.rows.get('device:a')?.value === 'off');
  await runtime.stop();
});

describe('a fired timer', () => {
  let held: boolean;
  let open: () => void;
  const send = (type: string) => runtime.actors.send(ref('a'), event(type));

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
    await make('a');
    await send('press');
    clock.advance(1_000); // the lamp is on, and its timer is due
  });

  /** The lamp was turned off and on after its timer had fired: the new timer counts. */
  async function staysOn(): Promise<void> {
    expect(runtime.actors.peek(ref('a'))?.snapshot.value).toBe('on');
    expect([...store.timers.values()].map(({ dueAt }) => dueAt)).toEqual([clock.now() + 1_000]);
    clock.advance(1_000);
    await runtime.timers.tick();
    expect(runtime.actors.peek(ref('a'))?.snapshot.value).toBe('off');
  }

  it('does not end its state if an earlier event left and entered that state again', async () => {
    hold();
    const sent = [runtime.actors.send(ref('a'), event('note', { text: 'x' }))];
    await eventually(() => held);
    sent.push(send('press'), send('press'));
    const fired = runtime.timers.tick();
    await eventually(() => runtime.actors.inspect(ref('a')).mailbox === 3);
    open();
    await Promise.all([...sent, fired]);
    await staysOn();
  });

  it('does not end its state if a commit in flight left and entered that state again', async () => {
    hold();
    const sent = [send('press'), send('press')];
    await eventually(() => held);
    const fired = runtime.timers.tick();
    await eventually(() => runtime.actors.inspect(ref('a')).mailbox === 1);
    open();
    await Promise.all([...sent, fired]);
    await staysOn();
  });

  it('is awaited by `tick` if it comes due while others are fired', async () => {
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
    expect(runtime.actors.peek(ref('a'))?.snapshot.value).toBe('off');
    await running;
  });
});
