import { describe, expect, it } from 'vitest';
import { DeviceOutbox } from '../../src/device/outbox.ts';
import type { WaitingMessage } from '../../src/device/store.ts';

function outboxOf(limit = 32, waiting: WaitingMessage[] = [], nextSequence = 1) {
  const dropped: unknown[] = [];
  let whole = 0;
  const fullState = () => ({ whole: ++whole });
  const options = {
    limit,
    nextSequence,
    waiting,
    fullState,
    dropped: (message: WaitingMessage) => dropped.push(message.payload),
  };
  return { outbox: new DeviceOutbox(options), dropped };
}

const payloads = (outbox: DeviceOutbox) => outbox.waiting().map(({ payload }) => payload);

describe('an outbox', () => {
  it('numbers messages once, in the order of sending', () => {
    const { outbox } = outboxOf(32, [], 5);
    void outbox.add('state', { n: 1 });
    void outbox.add('cmd_ack', { n: 2 });
    expect(outbox.waiting().map(({ sequence }) => sequence)).toEqual([null, null]);
    const sent = outbox.takeSendable();
    expect(sent.map(({ sequence }) => sequence)).toEqual([5, 6]);
    expect(outbox.takeSendable()).toEqual([]);
    outbox.resetSent();
    expect(outbox.takeSendable()).toEqual(sent);
    expect(sent.map(({ sequence }) => sequence)).toEqual([5, 6]);
    expect(outbox.nextSequence).toBe(7);
  });

  it('never goes back to a lower number when the service reports one', () => {
    const { outbox } = outboxOf(32, [], 5);
    outbox.advanceSequence(3);
    expect(outbox.takeSequence()).toBe(5);
    outbox.advanceSequence(9);
    expect(outbox.takeSequence()).toBe(10);
  });

  it('removes acknowledged messages in any order', async () => {
    const { outbox } = outboxOf();
    const answers = [outbox.add('state', { n: 1 }), outbox.add('state', { n: 2 })];
    const [first, second] = outbox.takeSendable();
    if (first === undefined || second === undefined) throw new Error('nothing to send');
    outbox.acknowledge(second);
    expect(payloads(outbox)).toEqual([{ n: 1 }]);
    outbox.acknowledge(first);
    outbox.acknowledge(first);
    expect(outbox.size).toBe(0);
    expect(await Promise.all(answers)).toEqual([true, true]);
  });

  it('restores the messages of a former run with their numbers and ids', () => {
    const left: WaitingMessage[] = [
      { messageId: 'm1', type: 'state', payload: { n: 1 }, sequence: 4 },
      { messageId: 'm2', type: 'cmd_ack', payload: { n: 2 }, sequence: null },
    ];
    const { outbox } = outboxOf(32, left, 5);
    expect(outbox.waiting()).toEqual(left);
    expect(outbox.takeSendable().map(({ messageId, sequence }) => [messageId, sequence])).toEqual([
      ['m1', 4],
      ['m2', 5],
    ]);
  });

  it('when full merges the unsent reports into one of the full state, whose outcome resolves them all', async () => {
    const { outbox, dropped } = outboxOf();
    const answers = Array.from({ length: 31 }, (_, n) => outbox.add('state', { n }));
    const ack = outbox.add('cmd_ack', { ack: true });
    const inFlight = outbox.takeSendable();
    answers.push(outbox.add('state', { n: 31 }));
    expect(payloads(outbox).slice(16)).toEqual([{ ack: true }, { state: { whole: 1 }, full: true }]);
    for (const entry of inFlight) outbox.acknowledge(entry);
    for (const entry of outbox.takeSendable()) outbox.acknowledge(entry);
    expect(await Promise.all([...answers, ack])).toEqual(Array.from({ length: 33 }, () => true));
    expect(dropped).toEqual([]);
  });

  it('when full of acknowledgements drops the oldest unsent one', async () => {
    const { outbox, dropped } = outboxOf();
    const answers = Array.from({ length: 32 }, (_, n) => outbox.add('cmd_ack', { n }));
    outbox.takeSendable();
    void outbox.add('cmd_ack', { n: 32 });
    void outbox.add('state', { n: 33 });
    expect(dropped).toEqual([{ n: 16 }, { n: 17 }]);
    expect(await answers[16]).toBe(false);
    expect(outbox.size).toBe(32);
    expect(payloads(outbox).at(-1)).toEqual({ state: { whole: 1 }, full: true });
  });

  it('holds at least twice the in-flight limit, however small its own limit', () => {
    const { outbox, dropped } = outboxOf(1);
    for (let n = 0; n < 32; n++) void outbox.add('cmd_ack', { n });
    expect(outbox.size).toBe(32);
    expect(dropped).toEqual([]);
  });

  it('resolves all waiters when it is closed, and keeps the messages', async () => {
    const { outbox } = outboxOf();
    const before = outbox.add('state', { n: 1 });
    outbox.rejectWaiters();
    const after = outbox.add('state', { n: 2 });
    expect(await Promise.all([before, after])).toEqual([false, false]);
    expect(payloads(outbox)).toEqual([{ n: 1 }, { n: 2 }]);
  });
});
