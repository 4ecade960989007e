import { beforeEach, describe, expect, it } from 'vitest';
import { Admission, bypassesLimits } from '../../src/actors/admission.ts';
import { Overloaded, type Reply } from '../../src/actors/contract.ts';
import type { Envelope, InternalSendOptions } from '../../src/actors/envelope.ts';
import { DEFAULT_RUNTIME_LIMITS } from '../../src/actors/runtime-limits.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';

const limits = { ...DEFAULT_RUNTIME_LIMITS, mailboxEvents: 3, pendingEvents: 2 };
const reply = { version: 1 } as Reply;
const durable: [string, InternalSendOptions][] = [
  ['an outbox row', { outboxKey: { from: { kind: 'device', id: 'a' }, version: 1, n: 0 } }],
  ['a timer', { firedTimer: 'silence' }],
  ['an event without a timeout', { noTimeout: true }],
];

let admission: Admission;
let errors: string[];
/** The names of the events whose handlers have the reply, in order. */
let answered: string[];

beforeEach(() => {
  errors = [];
  answered = [];
  const ignore = () => {};
  admission = new Admission(limits, {
    debug: ignore,
    info: ignore,
    warn: ignore,
    error: (_, message) => void errors.push(message),
  });
});

function admit(name: string, internal: InternalSendOptions = {}, resolve = () => void answered.push(name)): Envelope {
  const replyTo = { resolve, reject: (reason: Error) => void answered.push(`${name}: ${reason.message}`) };
  return admission.admit({ type: 'press', at: 0 }, internal, Number.POSITIVE_INFINITY, replyTo);
}

describe('an event', () => {
  it('is rejected for a full mailbox', () => {
    expect(admission.rejectionFor(2, {})).toBeNull();
    expect(admission.rejectionFor(3, {})).toBeInstanceOf(Overloaded);
  });

  it('is rejected while too many events are pending', () => {
    const [first] = [admit('a'), admit('b')];
    expect(admission.rejectionFor(0, {})).toBeInstanceOf(Overloaded);
    first?.resolve(reply);
    expect(admission.rejectionFor(0, {})).toBeNull();
  });

  it('is rejected once the service stops', () => {
    admission.closed = true;
    expect(admission.rejectionFor(0, {})).toBeInstanceOf(StoreUnavailable);
  });

  it.each(durable)('of %s bypasses all limits', (_, internal) => {
    admit('a');
    admit('b');
    admission.closed = true;
    expect([bypassesLimits(internal), admission.rejectionFor(3, internal)]).toEqual([true, null]);
  });
});

describe('a reply', () => {
  it('is passed on at once, and the first one counts', () => {
    const envelope = admit('a');
    envelope.resolve(reply);
    envelope.reject(new Error('later'));
    expect([answered, admission.pending]).toEqual([['a'], 0]);
  });

  it('that is deferred is passed on in a microtask, in the order of the replies', async () => {
    const [a, b] = [admit('a', { deferReply: true }), admit('b', { deferReply: true })];
    b.resolve(reply);
    a.reject(new Error('failed'));
    expect([answered, admission.pending]).toEqual([[], 0]);
    await Promise.resolve();
    expect(answered).toEqual(['b', 'a: failed']);
  });

  it('whose handler throws is logged, and the others are passed on', async () => {
    const throwing = () => {
      throw new Error('a bug');
    };
    admit('a', { deferReply: true }, throwing).resolve(reply);
    admit('b', { deferReply: true }).resolve(reply);
    await Promise.resolve();
    expect([errors, answered]).toEqual([['reply handler threw'], ['b']]);
  });
});
