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
  turn.actors.some(({ context }) => JSON.stringify(context.heard).includes(UNSTORABLE));

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

describe('who is told something by an actor of the turn', () => {
  it('decides it in the same turn: one commit, all of it or nothing, and no outbox row', async () => {
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

  it('hears all that several say to it, each in order, behind what waited for it', async () => {
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

  it('and whom it tells in its turn decide it in the same turn too; a word goes on so four times, and then later', async () => {
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

  it('may be the teller itself', async () => {
    await say('a', ['a', 'to myself']);
    expect(written(store.commits)).toEqual([['a', 0]]);
    expect(heardBy('a')).toEqual(['to myself']);
  });

  it('is seen to change only after the commit, and after the teller', async () => {
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

describe('the outbox tells', () => {
  it('who is not in memory', async () => {
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

  it('who is in a turn that commits', async () => {
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

  it('who finds no room in the turn', async () => {
    runtime = assemble({ enlistedActors: 1 });
    await Promise.all(['a', 'b', 'c'].map((id) => runtime.actors.read(relayRef(id))));
    await (await say('a', ['b', '1'], ['c', '2'], ['b', '3'])).messagesDelivered;
    expect(written(store.commits)).toEqual([
      ['ab', 1],
      ['c', 0],
    ]);
    expect([heardBy('b'), heardBy('c')]).toEqual([['1', '3'], ['2']]);
  });

  it('whose machine throws on it: that event fails alone, and nothing it said after it comes first', async () => {
    const reply = await say('a', ['b', '1'], ['b', THROWS], ['b', '2'], ['c', '3']);
    await reply.messagesDelivered;
    expect(written(store.commits)[0]).toEqual(['abc', 2]);
    expect([heardBy('b'), heardBy('c')]).toEqual([['1', '2'], ['3']]);
    expect(errors).toEqual(['event failed']);
    await eventually(() => store.outbox.size === 0);
    expect(runtime.actors.peek(relayRef('a'))?.version).toBe(2);
  });

  it('who is quarantined, when it is released', async () => {
    for (let n = 0; n < 3; n += 1) await (await say('a', ['b', THROWS])).messagesDelivered;
    const reply = await say('a', ['b', 'hello']);
    await expect(reply.messagesDelivered).rejects.toThrow('boom');
    expect([...store.outbox.keys()]).toEqual(['device:a:5:0']);
    await runtime.actors.releaseQuarantine(relayRef('b'));
    await eventually(() => store.outbox.size === 0);
    expect(heardBy('b')).toEqual(['hello']);
  });
});

describe('a turn with somebody whom others tell who were told themselves', () => {
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

  it('takes in what the next passes of the event loop bring, so that it is told by all of them at once', async () => {
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

  it('ends as soon as a pass brings nothing, and after four that do', async () => {
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

  it('is told in order where a word of it was left to the outbox before', async () => {
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

  it('does not wait where nobody was told but by who was asked from outside', async () => {
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

  it('is waited for by who drains, and is never written where the right to write is lost meanwhile', async () => {
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

describe('a turn with somebody who waits for words that may be there any moment', () => {
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

  it('stays open until all of them are there, and is then written without waiting for a clock', async () => {
    await slowly(
      () => say('a', ['b', '>c>first']),
      () => say('x', ['d', '>c>second']),
      () => say('y', ['e', '>c>third']),
    );
    expect(commits()).toEqual([['abcxdye', 0]]);
    expect(heardBy('c')).toEqual(['first', 'second', 'third']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('stays open for a millisecond, and takes in what is there then', async () => {
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

  it('is not held up where they were released a while ago', async () => {
    clock.advance(6);
    await say('a', ['b', '>c>first']);
    expect(commits()).toEqual([['abc', 0]]);
  });

  it('is not held up where somebody else is in it', async () => {
    await Promise.all([say('a', ['b', '>c>first']), say('s', ['s', 'apart'])]);
    expect(commits()).toEqual([['asbc', 0]]);
  });

  it('takes somebody else along as soon as they come', async () => {
    await slowly(
      () => say('a', ['b', '>c>first']),
      () => say('x', ['x', 'apart']),
    );
    expect(commits()).toEqual([['abcx', 0]]);
  });

  it('does not wait for one that is in another turn', async () => {
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

  it('is waited for by who drains', async () => {
    const said = say('a', ['b', '>c>first']);
    await passes();
    const drained = runtime.actors.drain();
    await passes();
    vi.advanceTimersByTime(1);
    await drained;
    await said;
    expect(commits()).toEqual([['abc', 0]]);
  });

  it('is never written where the right to write is lost meanwhile', async () => {
    void say('a', ['b', '>c>first']);
    await passes();
    runtime.halt();
    expect(vi.getTimerCount()).toBe(0);
    await passes();
    expect(commits()).toEqual([]);
  });
});

describe('a turn that is kept whole or not at all', () => {
  it.each(['a', 'b'])('is decided anew, each by itself, where the row of %s had moved on', async (moved) => {
    const row = store.rows.get(`device:${moved}`);
    if (row) row.version = 7;
    const [reply] = await Promise.all([say('a', ['b', 'hello']), say('c', ['c', 'apart'])]);
    await reply.messagesDelivered;
    expect([contextOf('a').said, heardBy('b'), heardBy('c')]).toEqual([[['b', 'hello']], ['hello'], ['apart']]);
    expect(store.rows.get(`device:${moved}`)?.version).toBe(8);
    expect(store.outbox.size).toBe(0);
  });

  it('that holds a row the store refuses leaves the teller and the others unharmed', async () => {
    store.beforeCommit = (turn) => {
      if (isVenomous(turn)) throw new DataRefused('22P05', 'unsupported Unicode escape sequence');
    };
    const [reply] = await Promise.all([say('a', ['b', UNSTORABLE], ['b', 'after']), say('c', ['c', 'apart'])]);
    await reply.messagesDelivered;
    expect([contextOf('a').said.length, heardBy('b'), heardBy('c')]).toEqual([2, ['after'], ['apart']]);
    await eventually(() => store.outbox.size === 0);
  });

  it.each(['beforeCommit', 'afterCommit'] as const)('happens once where the connection was lost: %s', async (when) => {
    let losses = 2;
    store[when] = () => {
      if (losses-- > 0) throw new CommitUnknown('connection lost');
    };
    const reply = await say('a', ['b', 'hello']);
    await reply.messagesDelivered;
    expect([contextOf('a').said, heardBy('b')]).toEqual([[['b', 'hello']], ['hello']]);
    expect([reply.version, store.rows.get('device:b')?.version]).toEqual([2, 2]);
    expect(store.outbox.size).toBe(0);
  });

  it('and of which nobody can say anything was kept whole or not at all', async () => {
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

  it('leaves out what its machine threw on, when the rest is decided anew', async () => {
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
