import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ClientConnection } from '../../../src/edges/mqtt/client-connection.ts';
import { FlowControl } from '../../../src/edges/mqtt/flow-control.ts';
import { Inbox, type QueuedMessage } from '../../../src/edges/mqtt/inbox.ts';
import { PUBLISH } from '../../../src/edges/mqtt/mqtt-connection.ts';
import { defaultMqttLimits } from '../../../src/edges/mqtt/mqtt-limits.ts';

/** Longer than any back-off of the inbox. */
const RETRIED_MS = 1_000;

let flow: FlowControl;
let inbox: Inbox;
/** The indexes of the messages that were sent or rejected, in order. */
let sent: number[];
let rejected: number[];

beforeEach(() => {
  vi.useFakeTimers();
  flow = new FlowControl({ resumeReading() {} } as ClientConnection, defaultMqttLimits, {
    take: () => 0,
    reserve: () => 0,
  });
  inbox = new Inbox(flow);
  sent = [];
  rejected = [];
});
afterEach(() => void vi.useRealTimers());

function enqueue(index: number, lookup: QueuedMessage['lookup'] = null): QueuedMessage {
  const received: QueuedMessage = {
    index,
    lookup,
    send: () => void sent.push(index),
    reject: () => void rejected.push(index),
  };
  inbox.enqueue(received);
  return received;
}

const isPaused = () => flow.admit(PUBLISH) === Number.POSITIVE_INFINITY;

describe('an inbox', () => {
  it('sends messages at once and in order', () => {
    for (const index of [0, 1, 2]) enqueue(index);
    expect(sent).toEqual([0, 1, 2]);
  });

  it('keeps messages behind one that waits for its lookup', async () => {
    const lookup = Promise.withResolvers<void>();
    enqueue(0, () => lookup.promise);
    enqueue(1);
    expect(sent).toEqual([]);
    lookup.resolve();
    await vi.advanceTimersByTimeAsync(0);
    expect(sent).toEqual([0, 1]);
  });

  it('rejects a message whose lookup fails, and sends none behind it', async () => {
    enqueue(0, () => Promise.reject(new Error('gone')));
    enqueue(1);
    await vi.advanceTimersByTimeAsync(RETRIED_MS);
    expect([sent, rejected]).toEqual([[], [0]]);
  });

  it('looks up again after the runtime was overloaded during a lookup', async () => {
    const outcomes = [Promise.reject(new Error('overloaded')), Promise.resolve()];
    const received = enqueue(0, () => outcomes.shift() as Promise<void>);
    received.reject = () => inbox.retryLater(received);
    enqueue(1);
    await vi.advanceTimersByTimeAsync(RETRIED_MS);
    expect([sent, outcomes.length]).toEqual([[0, 1], 0]);
  });

  it('sends overloaded messages again in their order, and pauses reading until then', async () => {
    const [first, second] = [enqueue(0), enqueue(1)];
    inbox.retryLater(second);
    inbox.retryLater(first);
    enqueue(2);
    expect([sent, isPaused()]).toEqual([[0, 1], true]);
    await vi.advanceTimersByTimeAsync(RETRIED_MS);
    expect([sent, isPaused()]).toEqual([[0, 1, 0, 1, 2], false]);
  });

  it('does not resume reading that was paused for another reason', async () => {
    inbox.retryLater(enqueue(0));
    flow.pause('ending');
    await vi.advanceTimersByTimeAsync(RETRIED_MS);
    expect([sent, isPaused()]).toEqual([[0, 0], true]);
    flow.resume('ending');
    expect(isPaused()).toBe(false);
    inbox.retryLater(enqueue(1));
    flow.pause('ending');
    flow.resume('ending');
    expect(isPaused()).toBe(true);
  });

  it('drops overloaded messages once the peer has closed, also those behind them', async () => {
    const first = enqueue(0);
    inbox.onPeerClosed();
    inbox.retryLater(first);
    enqueue(1);
    await vi.advanceTimersByTimeAsync(RETRIED_MS);
    expect(sent).toEqual([0]);
  });
});
