import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Admission } from '../../src/actors/admission.ts';
import { createUnitOfWork, type UnitOfWork } from '../../src/actors/commit/unit-of-work.ts';
import type { Reply } from '../../src/actors/contract.ts';
import { Deadlines } from '../../src/actors/deadlines.ts';
import type { Envelope, InternalSendOptions } from '../../src/actors/envelope.ts';
import { createBlankActor, takeEnvelopes } from '../../src/actors/live-actor.ts';
import { DEFAULT_RUNTIME_LIMITS } from '../../src/actors/runtime-limits.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import { CommitUnknown, StoreUnavailable } from '../../src/store/contract.ts';
import { testClock } from '../support/clock.ts';
import { silentLog } from '../support/lock-parts.ts';
import { lamp } from '../support/memory-actor-store.ts';

const limits = { ...DEFAULT_RUNTIME_LIMITS, callerTimeoutMs: 2_000, deviceTimeoutMs: 10_000 };
const clock = testClock();
const definition = lamp as unknown as MachineDefinition;
const DEVICE = { kind: 'device', id: 'a' } as const;

let deadlines: Deadlines;
let admission: Admission;
/** Names and reasons, in order. */
let rejected: { name: string; reason: Error }[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate'] });
  deadlines = new Deadlines(clock, limits);
  admission = new Admission(limits, silentLog);
  rejected = [];
});
afterEach(() => {
  vi.useRealTimers();
});

function send(name: string, by?: typeof DEVICE, internal: InternalSendOptions = {}): Envelope {
  const event = { type: 'press', at: clock.now(), ...(by && { by }) };
  const deadline = deadlines.deadlineOf(event, internal, clock.now());
  return admission.admit(event, internal, deadline, {
    resolve() {},
    reject: (reason) => rejected.push({ name, reason }),
  });
}

/** Moves the service's time and the timers of the process. */
async function pass(ms: number): Promise<void> {
  clock.advance(ms);
  await vi.advanceTimersByTimeAsync(ms);
}

const names = () => rejected.map(({ name }) => name);

describe('an attempt without an answer', () => {
  it('rejects callers after 2 s and devices after 10 s, and keeps the others', async () => {
    const owner = { mailbox: [send('caller'), send('device', DEVICE)] };
    await pass(1_999);
    expect(deadlines.rejectExpired(owner, new StoreUnavailable('gone'))).toBe(true);
    expect(names()).toEqual([]);
    await pass(1);
    expect(deadlines.rejectExpired(owner, new StoreUnavailable('gone'))).toBe(true);
    expect(rejected).toEqual([{ name: 'caller', reason: new StoreUnavailable('gone') }]);
    await pass(8_000);
    expect(deadlines.rejectExpired(owner, new StoreUnavailable('gone'))).toBe(false);
    expect(names()).toEqual(['caller', 'device']);
    expect(owner.mailbox).toEqual([]);
  });

  it('rejects the later messages of a device together with its first expired one', async () => {
    const first = send('first', DEVICE);
    await pass(9_000);
    const owner = { mailbox: [first, send('second', DEVICE), send('caller')] };
    await pass(1_000);
    expect(deadlines.rejectExpired(owner, new StoreUnavailable('gone'))).toBe(true);
    expect(names()).toEqual(['first', 'second']);
  });

  it('never rejects an event that is durable elsewhere', async () => {
    const timer = send('timer', undefined, { firedTimer: 'expire' });
    const message = send('message', undefined, { outboxKey: { from: DEVICE, version: 1, n: 0 } });
    const owner = { mailbox: [timer, message] };
    await pass(3_600_000);
    expect(deadlines.rejectExpired(owner, new StoreUnavailable('gone'))).toBe(true);
    expect(names()).toEqual([]);
  });

  it('drops envelopes that are answered already', () => {
    const answered = send('answered');
    answered.resolve({} as Reply);
    const owner = { mailbox: [answered] };
    expect(deadlines.rejectExpired(owner, new StoreUnavailable('gone'))).toBe(false);
    expect(owner.mailbox).toEqual([]);
  });
});

describe('a store with commits in flight', () => {
  const commitOf = (...sent: Envelope[]): UnitOfWork[] => {
    const actor = createBlankActor(DEVICE, definition, clock.now());
    actor.mailbox = sent;
    return [createUnitOfWork(actor, takeEnvelopes(actor, sent.length))];
  };

  it('keeps senders waiting as long as it answers, however slowly', async () => {
    deadlines.watch(() => [{ mailbox: [send('queued')] }]);
    deadlines.commitStarted(commitOf(send('in flight')));
    for (let answers = 0; answers < 20; answers += 1) {
      await pass(1_500);
      deadlines.storeAnswered();
    }
    expect(names()).toEqual([]);
  });

  it('answers the senders of those commits and of the queue if it is silent', async () => {
    const queued = { mailbox: [send('queued')] };
    deadlines.watch(() => [queued]);
    const units = commitOf(send('in flight'), send('device', DEVICE));
    const behind = send('behind');
    (units[0] as UnitOfWork).actor.mailbox = [behind];
    deadlines.commitStarted(units);
    await pass(1_999);
    expect(names()).toEqual([]);
    await pass(501);
    expect(names()).toEqual(['in flight', 'behind', 'queued']);
    expect(rejected.map(({ reason }) => reason.constructor)).toEqual([
      CommitUnknown,
      StoreUnavailable,
      StoreUnavailable,
    ]);
    expect((units[0] as UnitOfWork).actor.mailbox).toEqual([]);
    await pass(8_000);
    expect(names()).toEqual(['in flight', 'behind', 'queued', 'device']);
  });

  it('reports an unknown outcome to the sender when the commit has ended', async () => {
    const units = commitOf(send('in flight'));
    deadlines.commitStarted(units);
    await pass(2_500);
    const reason = rejected[0]?.reason as CommitUnknown;
    let ended = false;
    void reason.ended?.then(() => {
      ended = true;
    });
    await pass(10_000);
    expect(ended).toBe(false);
    deadlines.commitEnded(units);
    await pass(0);
    expect(ended).toBe(true);
  });

  it('does not count time without commits in flight as silence', async () => {
    const units = commitOf(send('first'));
    deadlines.commitStarted(units);
    deadlines.commitEnded(units);
    await pass(60_000);
    const sent = send('second');
    deadlines.commitStarted(commitOf(sent));
    await pass(1_900);
    expect(names()).toEqual([]);
  });
});
