import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/clock.ts';
import { relayRef, THROWS } from '../../support/relay-machine.ts';
import {
  clock,
  errors,
  gates,
  receivedBy,
  restart,
  runtime,
  send,
  store,
  withRelays,
  written,
} from './relay-runtime.ts';

withRelays();

describe('an enlisted actor', () => {
  it('is committed with its sender: one atomic commit and no outbox row', async () => {
    const reply = await send('a', ['b', 'hello']);
    expect(written(store.commits)).toEqual([['ab', 0]]);
    expect(store.commits[0]?.atomic).toBe(true);
    expect(receivedBy('b')).toEqual(['hello']);
    expect(runtime.actors.peek(relayRef('b'))?.version).toBe(2);
    await reply.messagesDelivered;
    expect(store.commits).toHaveLength(1);
    expect(store.journals.get('device:b')?.map(({ version, event }) => [version, event])).toEqual([
      [1, 'create'],
      [2, 'state.observed'],
    ]);
  });

  it('receives the messages of several senders, each in order, after the events already in its mailbox', async () => {
    await Promise.all([
      send('b', ['c', 'mine first']),
      send('a', ['b', '1'], ['c', '2'], ['b', '3']),
      send('a', ['b', '4']),
    ]);
    expect(written(store.commits)).toEqual([['bac', 0]]);
    expect(receivedBy('b')).toEqual(['1', '3', '4']);
    expect(receivedBy('c')).toEqual(['mine first', '2']);
    expect(runtime.actors.peek(relayRef('b'))?.version).toBe(5);
  });

  it('enlists its own targets; after four steps a message goes through the outbox', async () => {
    const { messagesDelivered } = await send('a', ['b', '>c>>a>>b>>c>round']);
    expect(written(store.commits)).toEqual([['abc', 1]]);
    expect([receivedBy('b'), receivedBy('c'), receivedBy('a')]).toEqual([
      ['>c>>a>>b>>c>round', '>c>round'],
      ['>a>>b>>c>round'],
      ['>b>>c>round'],
    ]);
    await messagesDelivered;
    await eventually(() => receivedBy('c').length === 2);
    expect([receivedBy('c')[1], store.outbox.size]).toEqual(['round', 0]);
  });

  it('can be the sender itself', async () => {
    await send('a', ['a', 'to myself']);
    expect(written(store.commits)).toEqual([['a', 0]]);
    expect(receivedBy('a')).toEqual(['to myself']);
  });

  it('publishes its transition only after the commit, and after the sender', async () => {
    const held = gates();
    const seen: string[] = [];
    runtime.actors.subscribeTransitions(({ ref }, { type }) => seen.push(`${ref.id} ${type}`));
    const sent = send('a', ['b', 'hello']);
    await eventually(() => held.length === 1);
    expect([seen, runtime.actors.peek(relayRef('b'))?.version]).toEqual([[], 1]);
    held[0]?.();
    await sent;
    expect(seen).toEqual(['a send', 'b state.observed']);
  });
});

describe('the outbox delivers to a target that', () => {
  it('is not in memory', async () => {
    clock.advance(3_600_000);
    await send('c', ['c', 'stay']);
    runtime.actors.passivate();
    expect(runtime.actors.peek(relayRef('b'))).toBeUndefined();
    store.commits = [];
    await (await send('c', ['b', 'hello'])).messagesDelivered;
    expect(written(store.commits)).toEqual([
      ['c', 1],
      ['b', 0],
    ]);
    expect(receivedBy('b')).toEqual(['hello']);
  });

  it('is in a batch that is being committed', async () => {
    restart({}, 2);
    await Promise.all(['a', 'b', 'c'].map((id) => runtime.actors.read(relayRef(id))));
    const held = gates();
    const first = send('b', ['c', '1']);
    await eventually(() => held.length === 1);
    const second = send('a', ['b', '2']);
    await eventually(() => held.length === 2);
    store.beforeCommit = () => {};
    for (const open of held) open();
    await Promise.all([first, second.then(({ messagesDelivered }) => messagesDelivered)]);
    expect(written(store.commits)).toEqual([
      ['bc', 0],
      ['a', 1],
      ['b', 0],
    ]);
    expect(receivedBy('b')).toEqual(['2']);
  });

  it('does not fit into the batch', async () => {
    restart({ enlistedActors: 1 });
    await Promise.all(['a', 'b', 'c'].map((id) => runtime.actors.read(relayRef(id))));
    await (await send('a', ['b', '1'], ['c', '2'], ['b', '3'])).messagesDelivered;
    expect(written(store.commits)).toEqual([
      ['ab', 1],
      ['c', 0],
    ]);
    expect([receivedBy('b'), receivedBy('c')]).toEqual([['1', '3'], ['2']]);
  });

  it('throws on the event: only that event fails, and later messages stay behind it', async () => {
    const reply = await send('a', ['b', '1'], ['b', THROWS], ['b', '2'], ['c', '3']);
    await reply.messagesDelivered;
    expect(written(store.commits)[0]).toEqual(['abc', 2]);
    expect([receivedBy('b'), receivedBy('c')]).toEqual([['1', '2'], ['3']]);
    expect(errors).toEqual(['event failed']);
    await eventually(() => store.outbox.size === 0);
    expect(runtime.actors.peek(relayRef('a'))?.version).toBe(2);
  });

  it('is quarantined, once it is released', async () => {
    for (let n = 0; n < 3; n += 1) await (await send('a', ['b', THROWS])).messagesDelivered;
    const reply = await send('a', ['b', 'hello']);
    await expect(reply.messagesDelivered).rejects.toThrow('boom');
    expect([...store.outbox.keys()]).toEqual(['device:a:5:0']);
    await runtime.actors.releaseQuarantine(relayRef('b'));
    await eventually(() => store.outbox.size === 0);
    expect(receivedBy('b')).toEqual(['hello']);
  });
});
