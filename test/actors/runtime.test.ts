import { beforeEach, describe, expect, it } from 'vitest';
import { EventFailed, NoSuchActor, Overloaded } from '../../src/actors/contract.ts';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { eventLoopTurns, eventually } from '../support/clock.ts';
import { errors, event, make, ref, restart, runtime, store, withRuntime } from './runtime-fixture.ts';

withRuntime();

describe('a sender with a callback', () => {
  const outcomes: unknown[] = [];
  const waiter = (id: string) => ({
    resolve: ({ version }: { version: number }) => outcomes.push(`${id} ${version}`),
    reject: (reason: Error) => outcomes.push(reason),
  });

  beforeEach(() => {
    outcomes.length = 0;
  });

  it('is called in the order of the decisions, once the whole batch is released', async () => {
    await Promise.all([make('a'), make('b')]);
    runtime.actors.subscribe('device.presence', () => outcomes.push('released'));
    for (const id of ['a', 'b', 'a']) runtime.actors.post(ref(id), event('press'), waiter(id));
    expect(outcomes).toEqual([]);
    await eventually(() => outcomes.length === 5);
    expect(outcomes).toEqual(['released', 'released', 'a 2', 'a 3', 'b 2']);
    expect(runtime.actors.stats().waiting).toBe(0);
  });

  it('is called with the reason of a refusal, and never before `post` has returned', async () => {
    restart({ mailboxEvents: 1 });
    await make('a');
    runtime.actors.post(ref('nobody'), event('press'), waiter('nobody'));
    runtime.actors.post(ref('a'), event('boom'), waiter('a'));
    runtime.actors.post(ref('a'), event('press'), waiter('a'));
    expect(outcomes).toEqual([]);
    await eventually(() => outcomes.length === 3);
    expect(outcomes.map((reason) => (reason as Error).constructor)).toEqual(
      expect.arrayContaining([Overloaded, EventFailed, NoSuchActor]),
    );
    expect(outcomes[0]).toBeInstanceOf(Overloaded);
  });

  it('does not prevent other callbacks by throwing', async () => {
    await make('a');
    const thrown = new Error('cannot listen');
    runtime.actors.post(ref('a'), event('press'), {
      resolve() {
        throw thrown;
      },
      reject() {},
    });
    runtime.actors.post(ref('a'), event('press'), waiter('a'));
    await eventually(() => outcomes.length === 1);
    expect(outcomes).toEqual(['a 3']);
    expect(errors).toEqual([[{ err: thrown }, 'reply handler threw']]);
  });
});

describe('a stopping runtime', () => {
  it('refuses new events and answers the pending ones', async () => {
    await make('a');
    const inside = runtime.actors.send(ref('a'), event('press'));
    const stopped = runtime.stop();
    await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow(StoreUnavailable);
    expect((await inside).version).toBe(2);
    await stopped;
  });

  it('starts no further batch once the lease is lost', async () => {
    await make('a');
    runtime.halt();
    const commits = store.commits.length;
    void runtime.actors.send(ref('a'), event('press'));
    await eventLoopTurns();
    expect(store.commits.length).toBe(commits);
  });

  it('releases a batch even if a subscriber throws', async () => {
    await make('a');
    runtime.actors.subscribeTransitions(() => {
      throw new Error('watcher');
    });
    const seen: string[] = [];
    const off = runtime.actors.subscribeTransitions((committed, happened, from) => {
      seen.push(`${String(from)} ${happened.type} ${String(committed.snapshot.value)}`);
    });
    await runtime.actors.send(ref('a'), event('press'));
    off();
    await runtime.actors.send(ref('a'), event('press'));
    expect(seen).toEqual(['off press on']);
  });
});
