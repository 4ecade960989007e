import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { eventually } from '../../support/clock.ts';
import { relayMachineExpecting, relayRef } from '../../support/relay-machine.ts';
import {
  clock,
  create,
  gates,
  receivedBy,
  restart,
  restartEmpty,
  runtime,
  send,
  store,
  withRelays,
  written,
} from './relay-runtime.ts';

withRelays();

describe('a batch with an actor that receives messages from enlisted actors', () => {
  const pass = () => new Promise(setImmediate);
  /** Sends in consecutive passes of the event loop; requires that no batch is in flight. */
  const inPasses = (...sends: (() => Promise<unknown>)[]): Promise<unknown>[] => {
    const sent: Promise<unknown>[] = [];
    const next = (at: number) => {
      const send = sends[at];
      if (send === undefined) return;
      sent.push(send());
      setImmediate(() => next(at + 1));
    };
    next(0);
    return sent;
  };

  it('lingers for the next passes of the event loop, so that all senders share one commit', async () => {
    await create('d', 'e');
    await pass();
    store.commits = [];
    const sent = inPasses(
      () => send('a', ['b', '>c>first']),
      () => send('d', ['c', 'second']),
      () => send('e', ['c', 'third']),
    );
    await eventually(() => sent.length === 3);
    await Promise.all(sent);
    expect(written(store.commits)).toEqual([['abcde', 0]]);
    expect(receivedBy('c')).toEqual(['first', 'second', 'third']);
  });

  it('closes after a pass without events, and after four passes with events', async () => {
    const others = ['d', 'e', 'f', 'g', 'h', 'i'];
    await create(...others);
    await pass();
    store.commits = [];
    const sent = inPasses(() => send('a', ['b', '>c>first']), ...others.map((id) => () => send(id, ['c', id])));
    await eventually(() => sent.length === 7);
    await Promise.all(sent);
    await eventually(() => receivedBy('c').length === 7);
    expect(store.commits[0]?.actors.map(({ ref }) => ref.id).join('')).toBe('abcdefg');
    await pass();
    store.commits = [];
    const late = inPasses(
      () => send('a', ['b', '>c>first']),
      async () => {},
      async () => {},
      () => send('d', ['d', 'too late']),
    );
    await eventually(() => late.length === 4);
    await Promise.all(late);
    expect(written(store.commits)).toEqual([
      ['abc', 0],
      ['d', 0],
    ]);
  });

  it('keeps the order if an earlier message was left to the outbox', async () => {
    await create('d');
    await pass();
    const sent = inPasses(
      () => send('a', ['b', '>c>>a>>b>>c>first']),
      () => send('d', ['b', '>c>second']),
    );
    await eventually(() => sent.length === 2);
    await Promise.all(sent);
    await eventually(() => receivedBy('c').length === 3);
    expect(receivedBy('c').slice(1)).toEqual(['first', 'second']);
  });

  it('does not linger if all messages came from actors that received external events', async () => {
    restart({}, 2);
    await Promise.all(['a', 'b', 'c'].map((id) => runtime.actors.read(relayRef(id))));
    const sent = inPasses(
      () => send('a', ['b', 'first']),
      () => send('c', ['c', 'unrelated']),
    );
    await eventually(() => sent.length === 2);
    await Promise.all(sent);
    expect(written(store.commits)).toEqual([
      ['ab', 0],
      ['c', 0],
    ]);
  });

  it('is awaited by a drain, and is not written if the lease is lost in the meantime', async () => {
    const sent = send('a', ['b', '>c>first']);
    await pass();
    await runtime.actors.drain();
    await sent;
    expect(written(store.commits)).toEqual([['abc', 0]]);

    restart();
    await Promise.all(['a', 'b', 'c'].map((id) => runtime.actors.read(relayRef(id))));
    void send('a', ['b', '>c>second']);
    await pass();
    runtime.halt();
    for (let n = 0; n < 10; n += 1) await pass();
    expect(store.commits).toHaveLength(1);
  });
});

describe('a batch with an actor that expects messages soon', () => {
  const pass = () => new Promise(setImmediate);
  const passes = async (count = 10) => {
    for (let n = 0; n < count; n += 1) await pass();
  };
  const commits = () => written(store.commits);
  /** Sends one after another, with a pause between them. */
  async function slowly(...sends: (() => Promise<unknown>)[]): Promise<unknown> {
    const sent: Promise<unknown>[] = [];
    for (const send of sends) {
      sent.push(send());
      await passes();
    }
    return Promise.all(sent);
  }

  beforeEach(async () => {
    restartEmpty({}, 2, relayMachineExpecting('c', 'b', 'd', 'e'));
    await create('a', 'b', 'c', 'd', 'e', 'x', 'y', 's');
    store.commits = [];
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('lingers until all of them have arrived, and is written without a timer', async () => {
    await slowly(
      () => send('a', ['b', '>c>first']),
      () => send('x', ['d', '>c>second']),
      () => send('y', ['e', '>c>third']),
    );
    expect(commits()).toEqual([['abcxdye', 0]]);
    expect(receivedBy('c')).toEqual(['first', 'second', 'third']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('lingers for a millisecond, and includes the messages that arrived by then', async () => {
    const first = send('a', ['b', '>c>first']);
    await passes();
    expect(commits()).toEqual([]);
    vi.advanceTimersByTime(1);
    const second = send('x', ['d', '>c>second']);
    await Promise.all([first, second]);
    expect(commits()).toEqual([['abcxd', 0]]);
    const third = send('y', ['e', '>c>third']);
    await passes();
    // It still lingers for the senders whose first messages were released.
    expect(commits()).toHaveLength(1);
    vi.advanceTimersByTime(1);
    await third;
    expect(receivedBy('c')).toEqual(['first', 'second', 'third']);
  });

  it('does not linger if their senders were released a while ago', async () => {
    clock.advance(6);
    await send('a', ['b', '>c>first']);
    expect(commits()).toEqual([['abc', 0]]);
  });

  it('does not linger with an unrelated actor in the batch', async () => {
    await Promise.all([send('a', ['b', '>c>first']), send('s', ['s', 'unrelated'])]);
    expect(commits()).toEqual([['asbc', 0]]);
  });

  it('includes an unrelated actor as soon as it has an event', async () => {
    await slowly(
      () => send('a', ['b', '>c>first']),
      () => send('x', ['x', 'unrelated']),
    );
    expect(commits()).toEqual([['abcx', 0]]);
  });

  it('does not linger for a sender in another batch', async () => {
    const held = gates();
    const others = Promise.all([send('d', ['d', 'unrelated']), send('e', ['e', 'unrelated'])]);
    await passes();
    const sent = send('a', ['b', '>c>first']);
    await passes();
    expect(held).toHaveLength(2);
    for (const open of held) open();
    await Promise.all([others, sent]);
    expect(commits()).toEqual([
      ['de', 0],
      ['abc', 0],
    ]);
  });

  it('is awaited by a drain', async () => {
    const sent = send('a', ['b', '>c>first']);
    await passes();
    const drained = runtime.actors.drain();
    await passes();
    vi.advanceTimersByTime(1);
    await drained;
    await sent;
    expect(commits()).toEqual([['abc', 0]]);
  });

  it('is not written if the lease is lost in the meantime', async () => {
    void send('a', ['b', '>c>first']);
    await passes();
    runtime.halt();
    expect(vi.getTimerCount()).toBe(0);
    await passes();
    expect(commits()).toEqual([]);
  });
});
