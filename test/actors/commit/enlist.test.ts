import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { EventFailed } from '../../../src/actors/contract.ts';
import { createRuntime, type Runtime } from '../../../src/actors/runtime.ts';
import type { RuntimeLimits } from '../../../src/actors/runtime-limits.ts';
import type { MachineDefinition } from '../../../src/machines/definition.ts';
import { type BatchCommit, CommitUnknown, DataRefused } from '../../../src/store/contract.ts';
import { eventually, type TestClock, testClock } from '../../support/clock.ts';
import { MemoryActorStore, makeRuntimeStore } from '../../support/memory-actor-store.ts';
import {
  type RelayedMessage,
  relayMachine,
  relayMachineExpecting,
  relayRef,
  THROWS,
  UNSTORABLE,
} from '../../support/relay-machine.ts';

let store: MemoryActorStore;
let clock: TestClock;
let runtime: Runtime;
let errors: string[];

function assemble(limits: Partial<RuntimeLimits> = {}, batchesInFlight = 1, definition = relayMachine): Runtime {
  return createRuntime({
    store: makeRuntimeStore(store, { batchesInFlight }).store,
    definitions: () => definition as unknown as MachineDefinition,
    clock,
    log: { debug() {}, info() {}, warn() {}, error: (_, words) => errors.push(words) },
    limits,
  });
}

const make = (...ids: string[]) =>
  Promise.all(ids.map((id) => runtime.actors.create(relayRef(id), { type: 'make', at: clock.now(), id } as never)));
const say = (from: string, ...words: RelayedMessage[]) =>
  runtime.actors.send(relayRef(from), { type: 'say', at: clock.now(), words } as never);
const contextOf = (id: string) =>
  store.rows.get(`device:${id}`)?.context as unknown as { said: RelayedMessage[]; heard: RelayedMessage[] };
const heardBy = (id: string) => contextOf(id).heard.map(([, word]) => word);
/** The actors of each commit, and its number of outbox rows. */
const written = (turns: readonly BatchCommit[]) =>
  turns.map(({ actors }) => [
    actors.map(({ ref }) => ref.id).join(''),
    actors.reduce((sum, { outbox }) => sum + outbox.length, 0),
  ]);
const isVenomous = (turn: BatchCommit): boolean =>
  turn.actors.some(({ live }) => JSON.stringify(live.heard).includes(UNSTORABLE));

/** Holds commits back; calling an entry of the result releases one commit. */
function gates(): (() => void)[] {
  const held: (() => void)[] = [];
  store.beforeCommit = () => new Promise<void>((resolve) => held.push(resolve));
  return held;
}

beforeEach(async () => {
  store = new MemoryActorStore();
  clock = testClock();
  errors = [];
  runtime = assemble();
  await make('a', 'b', 'c');
  store.commits = [];
});
afterEach(() => {
  store.beforeCommit = () => {};
  store.afterCommit = () => {};
  runtime.halt();
});

describe('an enlisted actor', () => {
  it('is committed with its sender: one atomic commit and no outbox row', async () => {
    const reply = await say('a', ['b', 'hello']);
    expect(written(store.commits)).toEqual([['ab', 0]]);
    expect(store.commits[0]?.atomic).toBe(true);
    expect(heardBy('b')).toEqual(['hello']);
    expect(runtime.actors.peek(relayRef('b'))?.version).toBe(2);
    await reply.messagesDelivered;
    expect(store.commits).toHaveLength(1);
    expect(store.journals.get('device:b')?.map(({ version, event }) => [version, event])).toEqual([
      [1, 'make'],
      [2, 'state.observed'],
    ]);
  });

  it('receives the messages of several senders, each in order, after the events already in its mailbox', async () => {
    await Promise.all([
      say('b', ['c', 'mine first']),
      say('a', ['b', '1'], ['c', '2'], ['b', '3']),
      say('a', ['b', '4']),
    ]);
    expect(written(store.commits)).toEqual([['bac', 0]]);
    expect(heardBy('b')).toEqual(['1', '3', '4']);
    expect(heardBy('c')).toEqual(['mine first', '2']);
    expect(runtime.actors.peek(relayRef('b'))?.version).toBe(5);
  });

  it('enlists its own targets; after four steps a message goes through the outbox', async () => {
    const { messagesDelivered } = await say('a', ['b', '>c>>a>>b>>c>round']);
    expect(written(store.commits)).toEqual([['abc', 1]]);
    expect([heardBy('b'), heardBy('c'), heardBy('a')]).toEqual([
      ['>c>>a>>b>>c>round', '>c>round'],
      ['>a>>b>>c>round'],
      ['>b>>c>round'],
    ]);
    await messagesDelivered;
    await eventually(() => heardBy('c').length === 2);
    expect([heardBy('c')[1], store.outbox.size]).toEqual(['round', 0]);
  });

  it('can be the sender itself', async () => {
    await say('a', ['a', 'to myself']);
    expect(written(store.commits)).toEqual([['a', 0]]);
    expect(heardBy('a')).toEqual(['to myself']);
  });

  it('publishes its transition only after the commit, and after the sender', async () => {
    const held = gates();
    const seen: string[] = [];
    runtime.actors.subscribeTransitions(({ ref }, { type }) => seen.push(`${ref.id} ${type}`));
    const said = say('a', ['b', 'hello']);
    await eventually(() => held.length === 1);
    expect([seen, runtime.actors.peek(relayRef('b'))?.version]).toEqual([[], 1]);
    held[0]?.();
    await said;
    expect(seen).toEqual(['a say', 'b state.observed']);
  });
});

describe('the outbox delivers to a target that', () => {
  it('is not in memory', async () => {
    clock.advance(3_600_000);
    await say('c', ['c', 'stay']);
    runtime.actors.passivate();
    expect(runtime.actors.peek(relayRef('b'))).toBeUndefined();
    store.commits = [];
    await (await say('c', ['b', 'hello'])).messagesDelivered;
    expect(written(store.commits)).toEqual([
      ['c', 1],
      ['b', 0],
    ]);
    expect(heardBy('b')).toEqual(['hello']);
  });

  it('is in a batch that is being committed', async () => {
    runtime = assemble({}, 2);
    await Promise.all(['a', 'b', 'c'].map((id) => runtime.actors.read(relayRef(id))));
    const held = gates();
    const first = say('b', ['c', '1']);
    await eventually(() => held.length === 1);
    const second = say('a', ['b', '2']);
    await eventually(() => held.length === 2);
    store.beforeCommit = () => {};
    for (const open of held) open();
    await Promise.all([first, second.then(({ messagesDelivered }) => messagesDelivered)]);
    expect(written(store.commits)).toEqual([
      ['bc', 0],
      ['a', 1],
      ['b', 0],
    ]);
    expect(heardBy('b')).toEqual(['2']);
  });

  it('does not fit into the batch', async () => {
    runtime = assemble({ enlistedActors: 1 });
    await Promise.all(['a', 'b', 'c'].map((id) => runtime.actors.read(relayRef(id))));
    await (await say('a', ['b', '1'], ['c', '2'], ['b', '3'])).messagesDelivered;
    expect(written(store.commits)).toEqual([
      ['ab', 1],
      ['c', 0],
    ]);
    expect([heardBy('b'), heardBy('c')]).toEqual([['1', '3'], ['2']]);
  });

  it('throws on the event: only that event fails, and later messages stay behind it', async () => {
    const reply = await say('a', ['b', '1'], ['b', THROWS], ['b', '2'], ['c', '3']);
    await reply.messagesDelivered;
    expect(written(store.commits)[0]).toEqual(['abc', 2]);
    expect([heardBy('b'), heardBy('c')]).toEqual([['1', '2'], ['3']]);
    expect(errors).toEqual(['event failed']);
    await eventually(() => store.outbox.size === 0);
    expect(runtime.actors.peek(relayRef('a'))?.version).toBe(2);
  });

  it('is quarantined, once it is released', async () => {
    for (let n = 0; n < 3; n += 1) await (await say('a', ['b', THROWS])).messagesDelivered;
    const reply = await say('a', ['b', 'hello']);
    await expect(reply.messagesDelivered).rejects.toThrow('boom');
    expect([...store.outbox.keys()]).toEqual(['device:a:5:0']);
    await runtime.actors.releaseQuarantine(relayRef('b'));
    await eventually(() => store.outbox.size === 0);
    expect(heardBy('b')).toEqual(['hello']);
  });
});

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
    await make('d', 'e');
    await pass();
    store.commits = [];
    const sent = inPasses(
      () => say('a', ['b', '>c>first']),
      () => say('d', ['c', 'second']),
      () => say('e', ['c', 'third']),
    );
    await eventually(() => sent.length === 3);
    await Promise.all(sent);
    expect(written(store.commits)).toEqual([['abcde', 0]]);
    expect(heardBy('c')).toEqual(['first', 'second', 'third']);
  });

  it('closes after a pass without events, and after four passes with events', async () => {
    const others = ['d', 'e', 'f', 'g', 'h', 'i'];
    await make(...others);
    await pass();
    store.commits = [];
    const sent = inPasses(() => say('a', ['b', '>c>first']), ...others.map((id) => () => say(id, ['c', id])));
    await eventually(() => sent.length === 7);
    await Promise.all(sent);
    await eventually(() => heardBy('c').length === 7);
    expect(store.commits[0]?.actors.map(({ ref }) => ref.id).join('')).toBe('abcdefg');
    await pass();
    store.commits = [];
    const late = inPasses(
      () => say('a', ['b', '>c>first']),
      async () => {},
      async () => {},
      () => say('d', ['d', 'too late']),
    );
    await eventually(() => late.length === 4);
    await Promise.all(late);
    expect(written(store.commits)).toEqual([
      ['abc', 0],
      ['d', 0],
    ]);
  });

  it('keeps the order if an earlier message was left to the outbox', async () => {
    await make('d');
    await pass();
    const sent = inPasses(
      () => say('a', ['b', '>c>>a>>b>>c>first']),
      () => say('d', ['b', '>c>second']),
    );
    await eventually(() => sent.length === 2);
    await Promise.all(sent);
    await eventually(() => heardBy('c').length === 3);
    expect(heardBy('c').slice(1)).toEqual(['first', 'second']);
  });

  it('does not linger if all messages came from actors that received external events', async () => {
    runtime = assemble({}, 2);
    await Promise.all(['a', 'b', 'c'].map((id) => runtime.actors.read(relayRef(id))));
    const sent = inPasses(
      () => say('a', ['b', 'first']),
      () => say('c', ['c', 'apart']),
    );
    await eventually(() => sent.length === 2);
    await Promise.all(sent);
    expect(written(store.commits)).toEqual([
      ['ab', 0],
      ['c', 0],
    ]);
  });

  it('is awaited by a drain, and is not written if the lease is lost in the meantime', async () => {
    const said = say('a', ['b', '>c>first']);
    await pass();
    await runtime.actors.drain();
    await said;
    expect(written(store.commits)).toEqual([['abc', 0]]);

    runtime = assemble();
    await Promise.all(['a', 'b', 'c'].map((id) => runtime.actors.read(relayRef(id))));
    void say('a', ['b', '>c>second']);
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
    runtime.halt();
    store = new MemoryActorStore();
    runtime = assemble({}, 2, relayMachineExpecting('c', 'b', 'd', 'e'));
    await make('a', 'b', 'c', 'd', 'e', 'x', 'y', 's');
    store.commits = [];
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('lingers until all of them have arrived, and is written without a timer', async () => {
    await slowly(
      () => say('a', ['b', '>c>first']),
      () => say('x', ['d', '>c>second']),
      () => say('y', ['e', '>c>third']),
    );
    expect(commits()).toEqual([['abcxdye', 0]]);
    expect(heardBy('c')).toEqual(['first', 'second', 'third']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('lingers for a millisecond, and includes the messages that arrived by then', async () => {
    const first = say('a', ['b', '>c>first']);
    await passes();
    expect(commits()).toEqual([]);
    vi.advanceTimersByTime(1);
    const second = say('x', ['d', '>c>second']);
    await Promise.all([first, second]);
    expect(commits()).toEqual([['abcxd', 0]]);
    const third = say('y', ['e', '>c>third']);
    await passes();
    // It still lingers for the senders whose first messages were released.
    expect(commits()).toHaveLength(1);
    vi.advanceTimersByTime(1);
    await third;
    expect(heardBy('c')).toEqual(['first', 'second', 'third']);
  });

  it('does not linger if their senders were released a while ago', async () => {
    clock.advance(6);
    await say('a', ['b', '>c>first']);
    expect(commits()).toEqual([['abc', 0]]);
  });

  it('does not linger with an unrelated actor in the batch', async () => {
    await Promise.all([say('a', ['b', '>c>first']), say('s', ['s', 'apart'])]);
    expect(commits()).toEqual([['asbc', 0]]);
  });

  it('includes an unrelated actor as soon as it has an event', async () => {
    await slowly(
      () => say('a', ['b', '>c>first']),
      () => say('x', ['x', 'apart']),
    );
    expect(commits()).toEqual([['abcx', 0]]);
  });

  it('does not linger for a sender in another batch', async () => {
    const held = gates();
    const others = Promise.all([say('d', ['d', 'apart']), say('e', ['e', 'apart'])]);
    await passes();
    const said = say('a', ['b', '>c>first']);
    await passes();
    expect(held).toHaveLength(2);
    for (const open of held) open();
    await Promise.all([others, said]);
    expect(commits()).toEqual([
      ['de', 0],
      ['abc', 0],
    ]);
  });

  it('is awaited by a drain', async () => {
    const said = say('a', ['b', '>c>first']);
    await passes();
    const drained = runtime.actors.drain();
    await passes();
    vi.advanceTimersByTime(1);
    await drained;
    await said;
    expect(commits()).toEqual([['abc', 0]]);
  });

  it('is not written if the lease is lost in the meantime', async () => {
    void say('a', ['b', '>c>first']);
    await passes();
    runtime.halt();
    expect(vi.getTimerCount()).toBe(0);
    await passes();
    expect(commits()).toEqual([]);
  });
});

describe('an atomic batch', () => {
  it.each(['a', 'b'])(
    'is decided again, each actor in isolation, if the row of %s has a newer version',
    async (moved) => {
      const row = store.rows.get(`device:${moved}`);
      if (row) row.version = 7;
      const [reply] = await Promise.all([say('a', ['b', 'hello']), say('c', ['c', 'apart'])]);
      await reply.messagesDelivered;
      expect([contextOf('a').said, heardBy('b'), heardBy('c')]).toEqual([[['b', 'hello']], ['hello'], ['apart']]);
      expect(store.rows.get(`device:${moved}`)?.version).toBe(8);
      expect(store.outbox.size).toBe(0);
    },
  );

  it('with a row that the store rejects does not affect the sender and unrelated actors', async () => {
    store.beforeCommit = (turn) => {
      if (isVenomous(turn)) throw new DataRefused('22P05', 'unsupported Unicode escape sequence');
    };
    const [reply] = await Promise.all([say('a', ['b', UNSTORABLE], ['b', 'after']), say('c', ['c', 'apart'])]);
    await reply.messagesDelivered;
    expect([contextOf('a').said.length, heardBy('b'), heardBy('c')]).toEqual([2, ['after'], ['apart']]);
    await eventually(() => store.outbox.size === 0);
  });

  it.each(['beforeCommit', 'afterCommit'] as const)(
    'takes effect once if the connection was lost: %s',
    async (when) => {
      let losses = 2;
      store[when] = () => {
        if (losses-- > 0) throw new CommitUnknown('connection lost');
      };
      const reply = await say('a', ['b', 'hello']);
      await reply.messagesDelivered;
      expect([contextOf('a').said, heardBy('b')]).toEqual([[['b', 'hello']], ['hello']]);
      expect([reply.version, store.rows.get('device:b')?.version]).toEqual([2, 2]);
      expect(store.outbox.size).toBe(0);
    },
  );

  it('with an unknown outcome is committed completely or not at all', async () => {
    runtime = assemble({ deviceTimeoutMs: 60 });
    await Promise.all(['a', 'b'].map((id) => runtime.actors.read(relayRef(id))));
    store.afterCommit = () => {
      throw new CommitUnknown('connection lost');
    };
    store.beforeLoad = () => {
      throw new CommitUnknown('connection lost');
    };
    await expect(say('a', ['b', 'hello'])).rejects.toThrow(CommitUnknown);
    store.afterCommit = () => {};
    store.beforeLoad = () => {};
    expect((await runtime.actors.read(relayRef('b')))?.version).toBe(2);
    await (await say('b', ['a', 'answer'])).messagesDelivered;
    expect([heardBy('a'), heardBy('b'), store.outbox.size]).toEqual([['answer'], ['hello'], 0]);
  });

  it('excludes the event on which a machine throws, and decides the others again', async () => {
    store.beforeCommit = (turn) => {
      if (isVenomous(turn)) throw new DataRefused('22P05', 'no');
    };
    const one = say('a', ['b', UNSTORABLE]);
    const other = runtime.actors.send(relayRef('a'), { type: 'say', at: clock.now(), words: 'none' } as never);
    await expect(other).rejects.toThrow(EventFailed);
    await (await one).messagesDelivered;
    expect(contextOf('a').said).toEqual([['b', UNSTORABLE]]);
  });
});
