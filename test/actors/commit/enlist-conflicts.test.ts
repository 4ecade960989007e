import { describe, expect, it } from 'vitest';
import { EventFailed } from '../../../src/actors/contract.ts';
import { CommitUnknown, DataRefused } from '../../../src/store/contract.ts';
import { eventually } from '../../support/clock.ts';
import type { CommittedBatch } from '../../support/committed-batch.ts';
import { relayRef, UNSTORABLE } from '../../support/relay-machine.ts';
import { clock, contextOf, heardBy, restart, runtime, say, store, withRelays } from './relay-runtime.ts';

const hasUnstorableText = (batch: CommittedBatch): boolean =>
  batch.actors.some(({ live }) => JSON.stringify(live.heard).includes(UNSTORABLE));

withRelays();

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
    store.beforeCommit = (batch) => {
      if (hasUnstorableText(batch)) throw new DataRefused('22P05', 'unsupported Unicode escape sequence');
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
    restart({ deviceTimeoutMs: 60 });
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
    store.beforeCommit = (batch) => {
      if (hasUnstorableText(batch)) throw new DataRefused('22P05', 'no');
    };
    const one = say('a', ['b', UNSTORABLE]);
    const other = runtime.actors.send(relayRef('a'), { type: 'say', at: clock.now(), words: 'none' } as never);
    await expect(other).rejects.toThrow(EventFailed);
    await (await one).messagesDelivered;
    expect(contextOf('a').said).toEqual([['b', UNSTORABLE]]);
  });
});
