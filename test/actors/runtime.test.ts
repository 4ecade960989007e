import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EventFailed, NoSuchActor, Overloaded, Quarantined } from '../../src/actors/contract.ts';
import { createRuntime, type Runtime } from '../../src/actors/runtime.ts';
import type { RuntimeLimits } from '../../src/actors/runtime-limits.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import type { ActorRef } from '../../src/machines/outputs.ts';
import type { StoredActor } from '../../src/store/contract/actor-rows.ts';
import {
  type BatchCommit,
  CommitUnknown,
  DataRefused,
  IdempotencyConflict,
  StoreUnavailable,
} from '../../src/store/contract.ts';
import { eventLoopTurns, eventually, type TestClock, testClock } from '../support/clock.ts';
import { type LampContext, lamp, MemoryActorStore, makeRuntimeStore } from '../support/memory-actor-store.ts';
import { flatContext } from '../support/stored-context.ts';

const silent = { debug() {}, info() {}, warn() {}, error(..._: unknown[]) {} };
const ref = (id: string, kind: ActorRef['kind'] = 'device'): ActorRef => ({ kind, id });

let store: MemoryActorStore;
let rest: ReturnType<typeof makeRuntimeStore>;
let clock: TestClock;
let runtime: Runtime;

function assemble(limits: Partial<RuntimeLimits> = {}, batchesInFlight = 1, definition = lamp): Runtime {
  rest = makeRuntimeStore(store, { batchesInFlight });
  return createRuntime({
    store: rest.store,
    definitions: () => definition as unknown as MachineDefinition,
    clock,
    log: silent,
    limits,
  });
}

const event = (type: string, more: object = {}) => ({ type, at: clock.now(), ...more });
const make = (id: string) => runtime.actors.create(ref(id), event('make', { id }));

beforeEach(() => {
  store = new MemoryActorStore();
  clock = testClock();
  runtime = assemble();
});
afterEach(async () => {
  store.beforeCommit = () => {};
  store.afterCommit = () => {};
  runtime.halt();
});

describe('group commit', () => {
  it('answers the sender only after the commit', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    store.beforeCommit = () => gate;
    let answered = false;
    const made = make('a').then((reply) => {
      answered = true;
      return reply;
    });
    await eventually(() => runtime.actors.stats().waiting === 1);
    expect(answered).toBe(false);
    expect(runtime.actors.peek(ref('a'))).toBeUndefined();
    open();
    expect((await made).version).toBe(1);
    expect(runtime.actors.peek(ref('a'))?.snapshot.value).toBe('off');
  });

  it('emits nothing of a transition that was not committed', async () => {
    await make('a');
    const seen: unknown[] = [];
    runtime.actors.subscribe('device.presence', (output) => seen.push(output));
    let fail = true;
    store.beforeCommit = () => {
      if (fail) throw new Error('disk on fire');
    };
    await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow(EventFailed);
    expect(seen).toEqual([]);
    fail = false;
    await runtime.actors.send(ref('a'), event('press'));
    expect(seen).toHaveLength(1);
    expect((await runtime.actors.read<LampContext>(ref('a')))?.snapshot.context.live.pressed).toBe(1);
  });

  it('commits all events of an actor as one row, and journals each transition under its own version', async () => {
    await make('a');
    const before = store.commits.length;
    const replies = await Promise.all([1, 2, 3].map(() => runtime.actors.send(ref('a'), event('press'))));
    expect(store.commits.length - before).toBe(1);
    expect(replies.map((reply) => reply.version)).toEqual([2, 3, 4]);
    expect(replies.map((reply) => reply.snapshot.value)).toEqual(['on', 'off', 'on']);
    expect(store.journals.get('device:a')?.map((entry) => entry.version)).toEqual([1, 2, 3, 4]);
    expect(store.rows.get('device:a')?.version).toBe(4);
  });

  it('collects events while another batch commits, never the same actor in both, and releases in order', async () => {
    runtime = assemble({}, 2);
    await Promise.all([make('a'), make('b')]);
    const gates: (() => void)[] = [];
    const turns: BatchCommit[] = [];
    store.beforeCommit = (turn) => {
      turns.push(turn);
      return new Promise<void>((resolve) => gates.push(resolve));
    };
    const order: string[] = [];
    const first = runtime.actors.send(ref('a'), event('press')).then(() => order.push('a1'));
    await eventually(() => gates.length === 1);
    const again = runtime.actors.send(ref('a'), event('press')).then(() => order.push('a2'));
    const second = runtime.actors.send(ref('b'), event('press')).then(() => order.push('b1'));
    await eventually(() => gates.length === 2);
    expect(turns[1]?.actors.map((actor) => actor.ref.id)).toEqual(['b']);
    gates[1]?.();
    await eventLoopTurns();
    expect(order).toEqual([]);
    gates[0]?.();
    await Promise.all([first, second]);
    expect(order).toEqual(['a1', 'b1']);
    await eventually(() => gates.length === 3);
    gates[2]?.();
    await again;
  });

  it('commits nothing for an ignored event, for a volatile output alone, and for a transient event', async () => {
    await make('a');
    const commits = store.commits.length;
    expect((await runtime.actors.send(ref('a'), event('nonsense'))).understood).toBe(false);
    const ping = await runtime.actors.send(ref('a'), event('ping'));
    expect(ping.outputs).toEqual([{ type: 'message.accepted', repeat: false }]);
    await runtime.actors.send(ref('a'), event('beat'));
    expect(store.commits.length).toBe(commits);
    expect((await runtime.actors.read<LampContext>(ref('a')))?.snapshot.context.fixed.heartbeats).toBe(1);
    await runtime.actors.send(ref('a'), event('press'));
    expect(store.rows.get('device:a')?.context.heartbeats).toBe(1);
  });

  it('writes the complete context until the row is known to have it, and then only the live fields', async () => {
    await make('a');
    const settled = () => store.commits.at(-1)?.actors.map((actor) => actor.fixedUnchanged);
    const inStep = async () => {
      const { snapshot } = (await runtime.actors.read(ref('a'))) ?? {};
      expect(store.rows.get('device:a')?.context).toEqual(
        snapshot && flatContext(lamp.toStored(snapshot.context as LampContext)),
      );
    };
    await runtime.actors.send(ref('a'), event('press'));
    expect(settled()).toEqual([true]);
    await inStep();

    // A transient event is applied without a commit, so the next commit must write its changes.
    await runtime.actors.send(ref('a'), event('beat'));
    await runtime.actors.send(ref('a'), event('press'));
    expect(settled()).toEqual([false]);
    await inStep();
    await runtime.actors.send(ref('a'), event('press'));
    expect(settled()).toEqual([true]);
    await inStep();

    // The stored context of an actor that was only loaded may be an older form of its fields.
    runtime = assemble();
    await runtime.actors.send(ref('a'), event('press'));
    expect(settled()).toEqual([false]);
    await runtime.actors.send(ref('a'), event('press'));
    expect(settled()).toEqual([true]);
    await inStep();
  });

  it("writes the complete context again after another writer's commit", async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    const row = store.rows.get('device:a');
    if (row)
      store.rows.set('device:a', {
        ...row,
        version: 3,
        value: 'off',
        context: { ...row.context, note: 'theirs', pressed: 40 },
      });
    const reply = await runtime.actors.send(ref('a'), event('press'));
    expect(reply.snapshot.context).toMatchObject({ fixed: { note: 'theirs' }, live: { pressed: 41 } });
    expect(store.commits.at(-1)?.actors.map(({ fixedUnchanged }) => fixedUnchanged)).toEqual([false]);
    expect(store.rows.get('device:a')?.context).toEqual(
      flatContext(lamp.toStored(reply.snapshot.context as LampContext)),
    );
  });

  it('stores the response of an idempotent request in the commit of its actor', async () => {
    const row = {
      principal: 'u',
      method: 'POST',
      path: '/x',
      key: 'k',
      bodyHash: 'h',
      state: 'done' as const,
      status: 201,
      answer: 'sealed',
      subject: null,
      expiresAt: 1,
    };
    await runtime.actors.create(ref('a'), event('make', { id: 'a' }), { idempotency: () => row });
    expect(store.commits[0]?.actors[0]?.idempotency).toEqual(row);
    await Promise.all([
      runtime.actors.send(ref('a'), event('press'), { idempotency: () => ({ ...row, key: 'k1' }) }),
      runtime.actors.send(ref('a'), event('press'), { idempotency: () => ({ ...row, key: 'k2' }) }),
    ]);
    expect(store.commits.slice(1).map((turn) => turn.actors[0]?.idempotency?.key)).toEqual(['k1', 'k2']);

    // The key has a stored response: the event is refused, and the actor is unchanged.
    for (let n = 0; n < 4; n += 1) {
      const again = runtime.actors.send(ref('a'), event('press'), { idempotency: () => ({ ...row, answer: 'other' }) });
      await expect(again).rejects.toBeInstanceOf(IdempotencyConflict);
    }
    expect((await runtime.actors.read<LampContext>(ref('a')))?.snapshot.context.live.pressed).toBe(1);
    expect(store.quarantines).toEqual([]);
  });
});

describe('a sender with a callback', () => {
  const heard: unknown[] = [];
  const waiter = (id: string) => ({
    resolve: ({ version }: { version: number }) => heard.push(`${id} ${version}`),
    reject: (reason: Error) => heard.push(reason),
  });
  const errors: unknown[] = [];

  beforeEach(() => {
    heard.length = 0;
    errors.length = 0;
  });

  it('is called in the order of the decisions, once the whole batch is released', async () => {
    await Promise.all([make('a'), make('b')]);
    runtime.actors.subscribe('device.presence', () => heard.push('released'));
    for (const id of ['a', 'b', 'a']) runtime.actors.post(ref(id), event('press'), waiter(id));
    expect(heard).toEqual([]);
    await eventually(() => heard.length === 5);
    expect(heard).toEqual(['released', 'released', 'a 2', 'a 3', 'b 2']);
    expect(runtime.actors.stats().waiting).toBe(0);
  });

  it('is called with the reason of a refusal, and never before `post` has returned', async () => {
    runtime = assemble({ mailboxEvents: 1 });
    await make('a');
    runtime.actors.post(ref('nobody'), event('press'), waiter('nobody'));
    runtime.actors.post(ref('a'), event('boom'), waiter('a'));
    runtime.actors.post(ref('a'), event('press'), waiter('a'));
    expect(heard).toEqual([]);
    await eventually(() => heard.length === 3);
    expect(heard.map((reason) => (reason as Error).constructor)).toEqual(
      expect.arrayContaining([Overloaded, EventFailed, NoSuchActor]),
    );
    expect(heard[0]).toBeInstanceOf(Overloaded);
  });

  it('does not prevent other callbacks by throwing', async () => {
    await make('a');
    const thrown = new Error('cannot listen');
    const { error } = silent;
    silent.error = (...told: unknown[]) => errors.push(told);
    runtime.actors.post(ref('a'), event('press'), {
      resolve() {
        throw thrown;
      },
      reject() {},
    });
    runtime.actors.post(ref('a'), event('press'), waiter('a'));
    await eventually(() => heard.length === 1);
    silent.error = error;
    expect(heard).toEqual(['a 3']);
    expect(errors).toEqual([[{ err: thrown }, 'reply handler threw']]);
  });
});

describe('a failing event does not affect others', () => {
  it('refuses the one event a machine throws on', async () => {
    await make('a');
    const results = await Promise.allSettled([
      runtime.actors.send(ref('a'), event('press')),
      runtime.actors.send(ref('a'), event('boom')),
      runtime.actors.send(ref('a'), event('press')),
    ]);
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(store.rows.get('device:a')?.version).toBe(3);
  });

  it('quarantines an actor that throws three times in a minute, and releases it', async () => {
    await make('a');
    await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
    clock.advance(61_000);
    await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
    await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
    expect(store.quarantines).toEqual([]);
    await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
    expect(store.quarantines).toEqual([['device:a', 'boom']]);
    await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow(Quarantined);
    expect(await runtime.actors.releaseQuarantine(ref('a'))).toBe(true);
    expect((await runtime.actors.send(ref('a'), event('press'))).understood).toBe(true);
    expect(await runtime.actors.releaseQuarantine(ref('nobody'))).toBe(false);
  });

  describe('an actor that is passivated after each commit', () => {
    beforeEach(() => {
      runtime.halt();
      runtime = assemble({}, 1, { ...lamp, canPassivate: () => true });
    });

    it('leaves memory with its commit, and is loaded for its next event', async () => {
      await make('a');
      expect([runtime.actors.peek(ref('a')), store.loads]).toEqual([undefined, []]);
      expect((await runtime.actors.send(ref('a'), event('press'))).version).toBe(2);
      expect(store.loads).toEqual([['a']]);
    });

    it('still counts its exceptions', async () => {
      await make('a');
      for (let n = 0; n < 3; n += 1) {
        await expect(runtime.actors.send(ref('a'), event('boom'))).rejects.toThrow(EventFailed);
      }
      expect(store.quarantines).toEqual([['device:a', 'boom']]);
      await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow(Quarantined);
    });

    it('keeps the new actor if a read that started before its creation finds nothing', async () => {
      let answer = () => {};
      // Returns the result as of the time of the call.
      store.load = () =>
        new Promise((resolve) => {
          answer = () => resolve([]);
        });
      const read = runtime.actors.read(ref('a'));
      await eventLoopTurns(2);
      await make('a');
      const pressed = runtime.actors.send(ref('a'), event('press'));
      answer();
      expect((await pressed).version).toBe(2);
      expect((await read)?.version).toBe(1);
    });
  });

  it.each(['refused', 'outrun'] as const)(
    'answers the events decided before its quarantine, if it is released before a commit that is %s',
    async (how) => {
      await make('a');
      let end = () => {};
      store.beforeCommit = () => {
        store.beforeCommit = () => {};
        return new Promise<void>((resolve, reject) => {
          end = () => (how === 'refused' ? reject(new StoreUnavailable('gone')) : resolve());
        });
      };
      const boom = () => runtime.actors.send(ref('a'), event('boom'));
      const sent = [boom(), boom(), boom(), runtime.actors.send(ref('a'), event('press'))];
      const ends = Promise.allSettled(sent);
      await eventually(() => store.quarantines.length === 1);
      await runtime.actors.releaseQuarantine(ref('a'));
      if (how === 'outrun') (store.rows.get('device:a') as StoredActor).version = 7;
      end();
      expect((await ends).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'fulfilled']);
      expect(runtime.actors.stats().waiting).toBe(0);
    },
  );

  it('bisects a batch with rejected data until the poison event is isolated', async () => {
    const ids = Array.from({ length: 60 }, (_, index) => `d${index}`);
    await Promise.all(ids.map(make));
    store.beforeCommit = (turn) => {
      if (JSON.stringify(turn.actors.map((actor) => actor.fixed)).includes('poison')) {
        throw new DataRefused('22P05', 'unsupported Unicode escape sequence');
      }
    };
    const results = await Promise.allSettled([
      ...ids.map((id) => runtime.actors.send(ref(id), event('press'))),
      runtime.actors.send(ref('d30'), event('note', { text: 'poison' })),
      runtime.actors.send(ref('d30'), event('press')),
    ]);
    expect(results.filter((result) => result.status === 'rejected')).toHaveLength(1);
    expect(results[60]?.status).toBe('rejected');
    expect(store.rows.get('device:d30')?.value).toBe('off');
    expect(store.rows.get('device:d59')?.value).toBe('on');
  });

  it('refuses a creating event with rejected data, and leaves no actor behind', async () => {
    store.beforeCommit = () => {
      throw new DataRefused('23505', 'duplicate key');
    };
    await expect(make('a')).rejects.toThrow(EventFailed);
    store.beforeCommit = () => {};
    expect(await runtime.actors.read(ref('a'))).toBeNull();
    expect((await make('a')).version).toBe(1);
  });
});

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
      const reply = await runtime.actors.send(ref('a'), event('tell', { to: ref('b'), text: hook }));
      await reply.messagesDelivered;
      expect(store.rows.get('device:b')?.context.note).toBe(`told ${hook}`);
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
    runtime = assemble({ deviceTimeoutMs: 100 });
    await Promise.all([make('a'), make('b')]);
    let away = true;
    store.afterCommit = () => {
      if (away) throw new CommitUnknown('connection lost');
    };
    const asked = runtime.actors.send(ref('a'), event('tell', { to: ref('b'), text: 'hello' }));
    await expect(asked).rejects.toThrow(CommitUnknown);
    away = false;
    await eventually(() => store.rows.get('device:b')?.context.note === 'told hello');
    expect((await runtime.actors.read(ref('a')))?.version).toBe(2);
    await eventually(() => store.outbox.size === 0);
  });

  it('that does not respond keeps callers waiting only until their deadline, and can continue', async () => {
    runtime = assemble({ callerTimeoutMs: 50, deviceTimeoutMs: 200 });
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
    const inTurn = runtime.actors.send(ref('a'), event('press'));
    await eventually(() => held);
    const behind = runtime.actors.send(ref('a'), event('press'));
    const other = runtime.actors.send(ref('b'), event('press'));
    const device = runtime.actors.send(ref('a'), event('note', { text: 'late', by }));
    const outcomes = Promise.allSettled([inTurn, behind, other]);
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
});

describe('mailboxes and memory', () => {
  it('are bounded per actor and in total', async () => {
    runtime = assemble({ mailboxEvents: 2, pendingEvents: 3 });
    await Promise.all([make('a'), make('b')]);
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    store.beforeCommit = () => gate;
    const first = runtime.actors.send(ref('a'), event('press'));
    const second = runtime.actors.send(ref('a'), event('press'));
    await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow(Overloaded);
    const third = runtime.actors.send(ref('b'), event('press'));
    await expect(runtime.actors.send(ref('b'), event('press'))).rejects.toThrow(Overloaded);
    await expect(runtime.actors.create(ref('c'), event('make', { id: 'c' }))).rejects.toThrow(Overloaded);
    open();
    await Promise.all([first, second, third]);
  });

  it('passivates idle actors and, beyond the limit, the least recently used ones, and loads them on demand', async () => {
    runtime = assemble({ liveActors: 2, idleMs: 1_000 });
    for (const id of ['a', 'b', 'c']) {
      await make(id);
      clock.advance(10);
    }
    const live = () => runtime.actors.stats().live;
    await eventually(() => live() === 2);
    expect(runtime.actors.peek(ref('a'))).toBeUndefined();
    expect((await runtime.actors.send(ref('a'), event('press'))).version).toBe(2);
    await eventually(() => live() === 2);
    expect(runtime.actors.peek(ref('b'))).toBeUndefined();
    expect(runtime.actors.passivate()).toBe(0);
    clock.advance(1_000);
    expect(runtime.actors.passivate()).toBe(2);
    const loads = store.loads.length;
    expect((await runtime.actors.readAll('device', ['a', 'b', 'nobody'])).size).toBe(2);
    expect(store.loads.length - loads).toBe(1);
  });

  it('passivates an actor in a final state and reads it from the store', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    await runtime.actors.send(ref('a'), event('break'));
    expect(runtime.actors.stats().live).toBe(0);
    expect((await runtime.actors.read(ref('a')))?.snapshot.value).toBe('broken');
  });

  it('rejects an event for an actor that does not exist, and reads null', async () => {
    await expect(runtime.actors.send(ref('nobody'), event('press'))).rejects.toThrow(NoSuchActor);
    expect(await runtime.actors.read(ref('nobody'))).toBeNull();
  });

  it('quarantines an actor whose stored context is invalid', async () => {
    await make('a');
    const row = store.rows.get('device:a');
    if (row) row.context = { pressed: 'often' };
    const other = assemble();
    await expect(other.actors.send(ref('a'), event('press'))).rejects.toThrow(Quarantined);
  });
});

describe('timers', () => {
  it('are rows in the commit of the transition that sets them, and fire once', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    expect([...store.timers.values()].map((timer) => timer.dueAt)).toEqual([clock.now() + 1_000]);
    await runtime.timers.tick();
    expect((await runtime.actors.read(ref('a')))?.snapshot.value).toBe('on');
    clock.advance(1_000);
    await runtime.timers.tick();
    expect((await runtime.actors.read(ref('a')))?.snapshot.value).toBe('off');
    expect(store.timers.size).toBe(0);
  });

  it('are cleared when their state is left, and set again when it is entered again', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    clock.advance(500);
    await runtime.actors.send(ref('a'), event('remake'));
    expect([...store.timers.values()].map((timer) => timer.dueAt)).toEqual([clock.now() + 1_000]);
    await runtime.actors.send(ref('a'), event('press'));
    expect(store.timers.size).toBe(0);
  });

  it('survive the process, and a fired one is an event that no state handles', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    const timer = [...store.timers.values()][0];
    runtime.halt();
    runtime = assemble();
    clock.advance(5_000);
    await runtime.timers.tick();
    expect((await runtime.actors.read(ref('a')))?.snapshot.value).toBe('off');
    if (timer) store.timers.set('again', { ...timer, id: 'again', event: 'long.gone' });
    const lost = { ref: ref('nobody'), id: 'x', event: 'x', dueAt: 0 };
    store.timers.set('device:nobody:x', lost);
    await runtime.timers.tick();
    expect(store.commits.at(-1)?.actors[0]?.value).toBe('off');
    expect(store.timers.has('device:nobody:x')).toBe(false);
  });

  it('exist again if the batch in which they fired sets them again, even for a time in the past', async () => {
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    clock.advance(1_000);
    const { promise: gate, resolve: open } = Promise.withResolvers<void>();
    let held = false;
    store.beforeCommit = () => {
      held = true;
      return gate;
    };
    const sent = [runtime.actors.send(ref('a'), event('note', { text: 'holds the turn' }))];
    await eventually(() => held);
    sent.push(runtime.actors.send(ref('a'), event('press')));
    const fired = runtime.timers.tick();
    await eventually(() => runtime.actors.stats().waiting === 3);
    sent.push(runtime.actors.send(ref('a'), event('press', { at: clock.now() - 1_000 })));
    open();
    await Promise.all([...sent, fired]);
    expect(store.timers.size).toBe(1);
    await runtime.timers.tick();
    expect(runtime.actors.peek(ref('a'))?.snapshot.value).toBe('off');
  });

  it('on which their machine throws are retried an hour later', async () => {
    await make('a');
    store.timers.set('device:a:x', { ref: ref('a'), id: 'x', event: 'boom', dueAt: clock.now() });
    for (let hour = 1; hour <= 4; hour += 1) {
      await runtime.timers.tick();
      expect(store.timers.get('device:a:x')?.dueAt).toBe(clock.now() + 3_600_000);
      clock.advance(3_600_000);
    }
    expect(store.quarantines).toEqual([]);
  });

  it('fire by themselves once the runtime has started', async () => {
    await runtime.start();
    await make('a');
    await runtime.actors.send(ref('a'), event('press'));
    clock.advance(1_000);
    await eventually(() => runtime.actors.peek(ref('a'))?.snapshot.value === 'off');
    await runtime.stop();
  });
});

describe('the outbox', () => {
  beforeEach(() => {
    runtime = assemble({ enlistedActors: 0 });
  });

  it('is delivered in process at once, and its row is deleted in the commit of the target', async () => {
    await Promise.all([make('a'), make('b')]);
    const reply = await runtime.actors.send(ref('a'), event('tell', { to: ref('b'), text: 'hello' }));
    expect(store.rows.get('device:b')?.context.note).toBeNull();
    await reply.messagesDelivered;
    expect(store.rows.get('device:b')?.context.note).toBe('told hello');
    expect(store.outbox.size).toBe(0);
    expect(store.commits.at(-1)?.actors[0]?.delivered).toHaveLength(1);
  });

  it('is swept at a start: after a crash between commit and release, nothing is lost', async () => {
    await Promise.all([make('a'), make('b')]);
    store.outbox.set('left', {
      from: ref('a'),
      version: 9,
      n: 0,
      output: { type: 'actor.tell', to: ref('b'), event: { type: 'device.revoked', deviceId: 'late' } },
    });
    store.outbox.set('device:a:9:0', store.outbox.get('left') as never);
    store.outbox.delete('left');
    runtime.halt();
    runtime = assemble();
    await runtime.start();
    expect(store.rows.get('device:b')?.context.note).toBe('told late');
    expect(store.outbox.size).toBe(0);
    await runtime.stop();
  });

  it('is swept periodically: rows of another process are delivered', async () => {
    await Promise.all([make('a'), make('b')]);
    runtime.halt();
    runtime = assemble({ sweepMs: 5 });
    await runtime.start();
    const output = { type: 'actor.tell', to: ref('b'), event: { type: 'device.revoked', deviceId: 'left' } } as const;
    const row = { from: ref('a'), version: 9, n: 0, output };
    store.outbox.set('device:a:9:0', row as never);
    await eventually(() => store.rows.get('device:b')?.context.note === 'told left');
    await eventually(() => store.outbox.size === 0);
    await runtime.stop();
  });

  it('drops messages to a target that does not exist', async () => {
    await make('a');
    const reply = await runtime.actors.send(ref('a'), event('tell', { to: ref('nobody'), text: 'x' }));
    await reply.messagesDelivered;
    expect(store.outbox.size).toBe(0);
  });

  it('delivers to every open command of a device', async () => {
    await Promise.all([make('a'), runtime.actors.create(ref('c1', 'command'), event('make', { id: 'c1' }))]);
    rest.asked.open = ['c1', 'gone'];
    const reply = await runtime.actors.send(ref('a'), event('tellAll'));
    await reply.messagesDelivered;
    expect(store.rows.get('command:c1')?.context.note).toBe('told a');
    expect(store.outbox.size).toBe(0);
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
