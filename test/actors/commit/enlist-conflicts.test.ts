import { describe, expect, it } from 'vitest';
import { EventFailed } from '../../../src/actors/contract.ts';
import { CommitUnknown, DataRefused } from '../../../src/store/contract.ts';
import { eventually } from '../../support/clock.ts';
import type { CommittedBatch } from '../../support/committed-batch.ts';
import { relayRef, UNSTORABLE } from '../../support/relay-machine.ts';
import { clock, contextOf, receivedBy, restart, runtime, send, store, withRelays } from './relay-runtime.ts';

const hasUnstorableText = (batch: CommittedBatch): boolean =>
  batch.actors.some(({ live }) => JSON.stringify(live.received).includes(UNSTORABLE));

withRelays();

describe('an atomic batch', () => {
  it.each(['a', 'b'])(
    'is decided again, each actor in isolation, if the row of %s has a newer version',
    async (moved) => {
      const row = store.rows.get(`device:${moved}`);
      if (row) row.version = 7;
      const [reply] = await Promise.all([send('a', ['b', 'hello']), send('c', ['c', 'unrelated'])]);
      await reply.messagesDelivered;
      expect([contextOf('a').sent, receivedBy('b'), receivedBy('c')]).toEqual([
        [['b', 'hello']],
        ['hello'],
        ['unrelated'],
      ]);
      expect(store.rows.get(`device:${moved}`)?.version).toBe(8);
      expect(store.outbox.size).toBe(0);
    },
  );

  it('with a row that the store rejects does not affect the sender and unrelated actors', async () => {
    store.beforeCommit = (batch) => {
      if (hasUnstorableText(batch)) throw new DataRefused('22P05', 'unsupported Unicode escape sequence');
    };
    const [reply] = await Promise.all([send('a', ['b', UNSTORABLE], ['b', 'after']), send('c', ['c', 'unrelated'])]);
    await reply.messagesDelivered;
    expect([contextOf('a').sent.length, receivedBy('b'), receivedBy('c')]).toEqual([2, ['after'], ['unrelated']]);
    await eventually(() => store.outbox.size === 0);
  });

  it.each(['beforeCommit', 'afterCommit'] as const)(
    'takes effect once if the connection was lost: %s',
    async (when) => {
      let losses = 2;
      store[when] = () => {
        if (losses-- > 0) throw new CommitUnknown('connection lost');
      };
      const reply = await send('a', ['b', 'hello']);
      await reply.messagesDelivered;
      expect([contextOf('a').sent, receivedBy('b')]).toEqual([[['b', 'hello']], ['hello']]);
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
    await expect(send('a', ['b', 'hello'])).rejects.toThrow(CommitUnknown);
    store.afterCommit = () => {};
    store.beforeLoad = () => {};
    expect((await runtime.actors.read(relayRef('b')))?.version).toBe(2);
    await (await send('b', ['a', 'answer'])).messagesDelivered;
    expect([receivedBy('a'), receivedBy('b'), store.outbox.size]).toEqual([['answer'], ['hello'], 0]);
  });

  it('excludes the event on which a machine throws, and decides the others again', async () => {
    store.beforeCommit = (batch) => {
      if (hasUnstorableText(batch)) throw new DataRefused('22P05', 'no');
    };
    const one = send('a', ['b', UNSTORABLE]);
    const other = runtime.actors.send(relayRef('a'), { type: 'send', at: clock.now(), messages: 'none' } as never);
    await expect(other).rejects.toThrow(EventFailed);
    await (await one).messagesDelivered;
    expect(contextOf('a').sent).toEqual([['b', UNSTORABLE]]);
  });
});
