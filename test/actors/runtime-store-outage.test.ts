import { describe, expect, it } from 'vitest';
import { ActorExists, EventFailed, NoSuchActor } from '../../src/actors/contract.ts';
import { CommitUnknown, StoreUnavailable } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import type { LampContext } from '../support/memory-actor-store.ts';
import { assemble, clock, event, make, ref, restart, runtime, store, withRuntime } from './runtime-fixture.ts';

withRuntime();

describe('a store that is briefly unavailable', () => {
  it('is retried without an error for the caller', async () => {
    await make('a');
    let failures = 3;
    store.beforeCommit = () => {
      if (failures-- > 0) throw new StoreUnavailable('gone');
    };
    expect((await runtime.actors.send(ref('a'), event('press'))).version).toBe(2);
  });

  it('rejects a caller after two seconds and a device after ten', async () => {
    await make('a');
    let away = true;
    store.beforeCommit = () => {
      if (away) throw new StoreUnavailable('gone');
    };
    const caller = runtime.actors.send(ref('a'), event('press'));
    const device = runtime.actors.send(ref('a'), event('note', { text: 'x', by: { kind: 'device', id: 'a' } }));
    device.catch(() => {});
    const outcome = expect(caller).rejects.toThrow(StoreUnavailable);
    await eventually(() => runtime.actors.groupCommit.paused);
    clock.advance(2_000);
    await outcome;
    expect(runtime.actors.stats().waiting).toBe(1);
    clock.advance(8_000);
    await expect(device).rejects.toThrow(StoreUnavailable);
    // No request waits for the store, so a service without traffic would not notice the end of the outage before its
    // next event.
    await eventually(() => !runtime.actors.groupCommit.paused);
    away = false;
    expect((await runtime.actors.send(ref('a'), event('press'))).version).toBe(2);
  });

  it('rejects the callers of all actors when they have expired, however many batches that would take', async () => {
    restart({ batchActors: 1 });
    const ids = Array.from({ length: 20 }, (_, n) => `lamp ${n}`);
    await Promise.all(ids.map((id) => make(id)));
    let attempts = 0;
    store.beforeCommit = () => {
      attempts += 1;
      throw new StoreUnavailable('gone');
    };
    const outcomes = Promise.allSettled(ids.map((id) => runtime.actors.send(ref(id), event('press'))));
    await eventually(() => runtime.actors.groupCommit.paused);
    const before = attempts;
    clock.advance(2_000);
    expect(new Set((await outcomes).map(({ status }) => status))).toEqual(new Set(['rejected']));
    expect(attempts).toBe(before + 1);
  });

  it('does not add up the times of separate failures: a slow caller of a later one keeps waiting', async () => {
    await Promise.all([make('a'), make('b')]);
    restart({ batchActors: 1 });
    store.beforeCommit = () => {
      throw new StoreUnavailable('gone');
    };
    const failed = expect(make('c')).rejects.toThrow(StoreUnavailable);
    await eventually(() => runtime.actors.groupCommit.paused);
    clock.advance(2_000);
    await failed;
    await runtime.actors.groupCommit.whenDrained();
    clock.advance(60_000);
    let fail = true;
    store.beforeCommit = () => {
      if (!fail) return;
      fail = false;
      throw new StoreUnavailable('gone');
    };
    // The store answers, but later than the callers wait.
    store.beforeLoad = () => clock.advance(2_000);
    const outcomes = await Promise.allSettled(['a', 'b'].map((id) => runtime.actors.send(ref(id), event('press'))));
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  });

  it('leaves no actor behind whose creation it did not store, so that it can be created again', async () => {
    restart({ callerTimeoutMs: 50 });
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    let held = false;
    store.beforeCommit = async () => {
      held = true;
      await gate;
      throw new StoreUnavailable('gone');
    };
    const inFlight = make('a');
    await eventually(() => held);
    const outcomes = Promise.allSettled([inFlight, make('b'), make('c')]);
    clock.advance(100);
    expect((await outcomes).map((one) => one.status === 'rejected' && one.reason.name)).toEqual([
      'CommitUnknown',
      'StoreUnavailable',
      'StoreUnavailable',
    ]);
    const repeated = make('b');
    const sent = runtime.actors.send(ref('c'), event('press'));
    store.beforeCommit = () => {};
    open();
    await expect(sent).rejects.toThrow(NoSuchActor);
    expect((await repeated).version).toBe(1);
    await runtime.actors.groupCommit.whenDrained();
    expect(runtime.actors.stats().live).toBe(1);
    expect((await make('a')).version).toBe(1);
  });

  it('receives the same commit again if the connection was lost, and it takes effect once', async () => {
    await Promise.all([make('a'), make('b')]);
    const lose = (hook: 'beforeCommit' | 'afterCommit') => {
      store[hook] = () => {
        store[hook] = () => {};
        throw new CommitUnknown('connection lost');
      };
    };
    for (const hook of ['beforeCommit', 'afterCommit'] as const) {
      lose(hook);
      const reply = await runtime.actors.send(ref('a'), event('sendTo', { to: ref('b'), text: hook }));
      await reply.messagesDelivered;
      expect(store.rows.get('device:b')?.context.note).toBe(`informed by ${hook}`);
      lose(hook);
      expect((await make(`new ${hook}`)).version).toBe(1);
    }
    expect((await runtime.actors.read(ref('a')))?.version).toBe(3);
    expect(store.rows.get('device:a')?.version).toBe(3);
    expect(store.outbox.size).toBe(0);
  });

  it("recognizes its own live-field commit if the response was lost, and another writer's change of the same field", async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    store.afterCommit = () => {
      store.afterCommit = () => {};
      throw new CommitUnknown('connection lost');
    };
    const own = await runtime.actors.send(ref('a'), event('press'));
    expect(store.commits.at(-1)?.actors.map(({ fixedUnchanged }) => fixedUnchanged)).toEqual([true]);
    expect(own).toMatchObject({ version: 3, snapshot: { context: { live: { pressed: 1 } } } });
    expect(store.rows.get('device:a')).toMatchObject({ version: 3, context: { pressed: 1 } });
    await runtime.actors.send(ref('a'), event('press'));

    store.beforeCommit = () => {
      store.beforeCommit = () => {};
      const row = store.rows.get('device:a');
      if (row)
        store.rows.set('device:a', { ...row, version: 5, value: 'off', context: { ...row.context, pressed: 40 } });
      throw new CommitUnknown('connection lost');
    };
    const reply = await runtime.actors.send(ref('a'), event('press'));
    expect(reply).toMatchObject({ version: 6, snapshot: { context: { live: { pressed: 41 } } } });
    expect(store.rows.get('device:a')).toMatchObject({ version: 6, context: { pressed: 41 } });
  });

  it('decides again if another writer was first and the connection was lost too', async () => {
    await make('a');
    store.beforeCommit = () => {
      store.beforeCommit = () => {};
      const row = store.rows.get('device:a');
      if (row) store.rows.set('device:a', { ...row, version: 2, context: { ...row.context, pressed: 40 } });
      throw new CommitUnknown('connection lost');
    };
    const reply = await runtime.actors.send(ref('a'), event('press'));
    expect(reply.snapshot.context).toMatchObject({ live: { pressed: 41 } });
    expect(reply.version).toBe(3);
  });

  it('reloads the actors of a commit with an unknown outcome, and delivers their messages', async () => {
    restart({ deviceTimeoutMs: 100 });
    await Promise.all([make('a'), make('b')]);
    let away = true;
    store.afterCommit = () => {
      if (away) throw new CommitUnknown('connection lost');
    };
    const reply = runtime.actors.send(ref('a'), event('sendTo', { to: ref('b'), text: 'hello' }));
    await expect(reply).rejects.toThrow(CommitUnknown);
    away = false;
    await eventually(() => store.rows.get('device:b')?.context.note === 'informed by hello');
    expect((await runtime.actors.read(ref('a')))?.version).toBe(2);
    await eventually(() => store.outbox.size === 0);
  });

  it('that does not respond keeps callers waiting only until their deadline, and can continue', async () => {
    restart({ callerTimeoutMs: 50, deviceTimeoutMs: 200 });
    await Promise.all([make('a'), make('b')]);
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    let held = false;
    store.beforeCommit = () => {
      held = true;
      return gate;
    };
    const by = { kind: 'device', id: 'a' };
    const inBatch = runtime.actors.send(ref('a'), event('press'));
    await eventually(() => held);
    const behind = runtime.actors.send(ref('a'), event('press'));
    const other = runtime.actors.send(ref('b'), event('press'));
    const device = runtime.actors.send(ref('a'), event('note', { text: 'late', by }));
    const outcomes = Promise.allSettled([inBatch, behind, other]);
    clock.advance(100);
    expect((await outcomes).map((one) => one.status === 'rejected' && one.reason.name)).toEqual([
      'CommitUnknown',
      'StoreUnavailable',
      'StoreUnavailable',
    ]);
    expect(runtime.actors.stats().waiting).toBe(1);
    open();
    expect((await device).version).toBe(3);
    expect((await runtime.actors.read<LampContext>(ref('a')))?.snapshot.context.live.pressed).toBe(1);
    expect((await runtime.actors.read(ref('b')))?.version).toBe(1);
  });

  it('unloads an actor whose row has a newer version, loads it and decides again', async () => {
    await make('a');
    const row = store.rows.get('device:a');
    if (row) {
      row.version = 7;
      row.context = { ...row.context, pressed: 40 };
    }
    const reply = await runtime.actors.send(ref('a'), event('press'));
    expect(reply.version).toBe(8);
    expect((reply.snapshot.context as LampContext).live.pressed).toBe(41);
  });

  it('refuses to create an actor that exists in the store', async () => {
    await make('a');
    const other = assemble();
    await expect(other.actors.create(ref('a'), event('make', { id: 'a' }))).rejects.toThrow(EventFailed);
    expect((await other.actors.read(ref('a')))?.version).toBe(1);
    await expect(runtime.actors.create(ref('a'), event('make', { id: 'a' }))).rejects.toThrow(EventFailed);
  });

  it('delivers what was sent to an actor during its refused creation to the one that exists', async () => {
    await make('a');
    const other = assemble();
    const creation = other.actors.create(ref('a'), event('make', { id: 'a' }));
    const sent = other.actors.send(ref('a'), event('press'));
    await expect(creation).rejects.toThrow(ActorExists);
    expect(await sent).toMatchObject({ version: 2, snapshot: { value: 'on' } });
  });
});
