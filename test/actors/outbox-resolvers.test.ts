import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { setup } from 'xstate';
import { z } from 'zod';
import {
  type AddressedEvent,
  type BatchView,
  EventFailed,
  NoSuchActor,
  Quarantined,
} from '../../src/actors/contract.ts';
import { Runtime } from '../../src/actors/runtime.ts';
import type { RuntimeLimits } from '../../src/actors/runtime-limits.ts';
import { actionsFor, emit } from '../../src/machines/decision.ts';
import type { MachineDefinition, MachineEvent } from '../../src/machines/definition.ts';
import type { Output, ResolvableOutput } from '../../src/machines/outputs.ts';
import { CommitUnknown, DataRefused, StoreUnavailable } from '../../src/store/contract.ts';
import { eventually, type TestClock, testClock } from '../support/clock.ts';
import { type LampContext, lamp, MemoryActorStore, makeRuntimeStore } from '../support/memory-actor-store.ts';
import { slow } from '../support/slow.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };
const ASK: ResolvableOutput = { type: 'plan.ask', planId: 'p', stepId: 'a', commandId: 'c' };

const action = actionsFor<Record<string, unknown>, MachineEvent>();

/** Emits a `plan.ask` for each event that requests one. */
const requesterDefinition: MachineDefinition = {
  ...(lamp as unknown as MachineDefinition),
  kind: 'plan',
  machine: setup({
    types: {} as { events: MachineEvent; emitted: Output },
    actions: {
      ask: action(() => emit(ASK)),
      boom: action(() => {
        throw new Error('boom');
      }),
    },
  }).createMachine({
    id: 'requester',
    initial: 'there',
    context: { fixed: {}, live: {} },
    states: {
      there: {
        on: {
          ask: { actions: 'ask' },
          boom: { actions: 'boom' },
        },
      },
    },
  }),
  fromStored: () => ({ fixed: {}, live: {} }),
  storedSchema: z.strictObject({}),
};

let store: MemoryActorStore;
let clock: TestClock;
let runtime: Runtime;
const assemble = (limits: Partial<RuntimeLimits> = {}, batchesInFlight = 1) =>
  new Runtime({
    ...{ store: makeRuntimeStore(store, { batchesInFlight }).store, clock, log: silent, limits },
    definitions: (kind) => (kind === 'plan' ? requesterDefinition : (lamp as unknown as MachineDefinition)),
  });

beforeEach(() => {
  store = new MemoryActorStore();
  clock = testClock();
  runtime = assemble();
});
afterEach(() => {
  store.beforeCommit = () => {};
  runtime.halt();
});

const event = (type: string, more: object = {}): MachineEvent => ({ type, at: clock.now(), ...more });
const ask = () => runtime.actors.create({ kind: 'plan', id: 'p' }, event('ask'));
const making = (more: Partial<AddressedEvent> = {}): AddressedEvent => ({
  ...{ to: { kind: 'device', id: 'c' }, event: event('make', { id: 'c' }), create: true },
  ...more,
});
const commitWith = (kind: string) => store.commits.find(({ actors }) => actors.some(({ ref }) => ref.kind === kind));

describe('an output with a resolver', () => {
  it('is resolved to an event, and its row is deleted in the commit of that event', async () => {
    runtime.outbox.registerResolver('plan.ask', async (output) => {
      expect(output).toEqual(ASK);
      expect(store.outbox.size).toBe(1);
      return making();
    });
    const { messagesDelivered } = await ask();
    await messagesDelivered;
    expect(commitWith('device')?.actors[0]?.delivered).toEqual([
      expect.objectContaining({ from: { kind: 'plan', id: 'p' }, version: 1, n: 0 }),
    ]);
    expect([store.outbox.size, store.rows.has('device:c')]).toEqual([0, true]);
  });

  it('can be resolved to nothing', async () => {
    runtime.outbox.registerResolver('plan.ask', async () => null);
    await (await ask()).messagesDelivered;
    expect([store.outbox.size, store.rows.size]).toEqual([0, 1]);
  });

  it('is completed if the actor to create exists already', async () => {
    await runtime.actors.create({ kind: 'device', id: 'c' }, event('make', { id: 'c' }));
    runtime.outbox.registerResolver('plan.ask', async () => making());
    await (await ask()).messagesDelivered;
    expect([store.outbox.size, store.rows.get('device:c')?.version]).toEqual([0, 1]);
  });

  it('is resolved to a different event if a machine throws on the first one', async () => {
    await runtime.actors.create({ kind: 'device', id: 'd' }, event('make', { id: 'd' }));
    const fallback: AddressedEvent = { to: { kind: 'device', id: 'd' }, event: event('note', { text: 'no' }) };
    runtime.outbox.registerResolver('plan.ask', async () => making({ event: event('boom'), fallback }));
    await (await ask()).messagesDelivered;
    expect([store.outbox.size, store.rows.has('device:c')]).toEqual([0, false]);
    expect(store.rows.get('device:d')?.context.note).toBe('no');
  });

  it('stays in the outbox until a resolver is registered, and is retried if the resolver fails', slow, async () => {
    const { messagesDelivered } = await ask();
    await expect(messagesDelivered).rejects.toThrow("no resolver is registered for outputs of type 'plan.ask'");
    expect(store.outbox.size).toBe(1);
    let tries = 0;
    runtime.outbox.registerResolver('plan.ask', async () => {
      tries += 1;
      if (tries === 1) throw new StoreUnavailable('away');
      return making();
    });
    await eventually(() => store.rows.has('device:c'));
    expect([tries, store.outbox.size]).toEqual([2, 0]);
  });

  it('is left to the release of its batch by a sweep that finds it first', async () => {
    runtime.outbox.registerResolver('plan.ask', async () =>
      (await runtime.actors.read({ kind: 'plan', id: 'p' })) === null ? null : making(),
    );
    let [release, end] = [() => {}, () => {}];
    store.afterCommit = () => new Promise<void>((resolve) => (release = resolve));
    const reply = ask();
    await eventually(() => store.outbox.size === 1);
    store.afterCommit = () => {};
    store.beforeCommit = ({ actors }) =>
      actors.length === 0 ? new Promise<void>((resolve) => (end = resolve)) : undefined;
    const swept = runtime.outbox.sweep();
    for (let n = 0; n < 10; n += 1) await new Promise(setImmediate);
    release();
    const { messagesDelivered } = await reply;
    end();
    await Promise.all([messagesDelivered, swept]);
    expect([store.rows.has('device:c'), store.outbox.size]).toEqual([true, 0]);
  });

  it('is not resolved again by a sweep that read it before it was completed', async () => {
    let [resolved, answer, goOn] = [0, () => {}, () => {}];
    runtime.outbox.registerResolver('plan.ask', async () => {
      resolved += 1;
      await new Promise<void>((resolve) => (answer = resolve));
      return making();
    });
    const { messagesDelivered } = await ask();
    const read = store.pendingOutbox.bind(store);
    store.pendingOutbox = async (limit, after) => {
      const rows = await read(limit, after);
      await new Promise<void>((resolve) => (goOn = resolve));
      return rows;
    };
    const swept = runtime.outbox.sweep();
    await new Promise(setImmediate);
    answer();
    await messagesDelivered;
    goOn();
    await new Promise(setImmediate);
    answer();
    await swept;
    expect([resolved, store.rows.has('device:c')]).toEqual([1, true]);
  });

  it('is found by a later sweep if the outcome of its commit is unknown', async () => {
    runtime = assemble({ deviceTimeoutMs: 1 });
    runtime.outbox.registerResolver('plan.ask', async () => making());
    let lose = () => {};
    store.afterCommit = () =>
      new Promise<void>((_, reject) => (lose = () => reject(new CommitUnknown('connection lost'))));
    const rejected = expect(ask()).rejects.toThrow(CommitUnknown);
    await eventually(() => store.outbox.size === 1);
    store.afterCommit = () => {};
    await runtime.outbox.sweep();
    expect(store.rows.has('device:c')).toBe(false);
    lose();
    await rejected;
    await eventually(() => store.rows.has('device:c'));
    expect(store.outbox.size).toBe(0);
  });

  it('is resolved by the next process after a crash', async () => {
    (await ask()).messagesDelivered.catch(() => {});
    runtime.halt();
    runtime = assemble();
    runtime.outbox.registerResolver('plan.ask', async () => making());
    await runtime.start();
    expect([store.rows.has('device:c'), store.outbox.size]).toEqual([true, 0]);
    await runtime.stop();
  });
});

describe('an output that is resolved from memory', () => {
  const never = async (): Promise<AddressedEvent> => {
    throw new Error('the resolver must not be called');
  };
  const isMade = () => store.rows.has('device:c');
  const kinds = () => store.commits.map(({ actors }) => actors.map(({ ref }) => ref.kind).join(' '));

  it('creates its actor in the same batch: one atomic commit and no outbox row', async () => {
    runtime.outbox.registerResolver('plan.ask', never, () => making());
    const { messagesDelivered, version } = await ask();
    expect([kinds(), store.commits[0]?.atomic, store.outbox.size]).toEqual([['plan device'], true, 0]);
    expect(store.commits[0]?.actors.every(({ outbox }) => outbox.length === 0)).toBe(true);
    expect([version, runtime.actors.peek({ kind: 'device', id: 'c' })?.version]).toEqual([1, 1]);
    await messagesDelivered;
  });

  it('is resolved with the state of the actors at that point of the batch', async () => {
    await runtime.actors.create({ kind: 'device', id: 'd' }, event('make', { id: 'd' }));
    const seen: unknown[] = [];
    runtime.outbox.registerResolver('plan.ask', never, (_, batch) => {
      for (const ref of [
        { kind: 'plan', id: 'p' } as const,
        { kind: 'device', id: 'd' } as const,
        { kind: 'device', id: 'nobody' } as const,
      ]) {
        const found = batch.peek<LampContext>(ref);
        seen.push([found?.version, found?.snapshot.context.fixed.note]);
      }
      return making();
    });
    await Promise.all([
      runtime.actors.send({ kind: 'device', id: 'd' }, event('note', { text: 'in this batch' })),
      ask(),
    ]);
    expect(seen).toEqual([
      [1, undefined],
      [2, 'in this batch'],
      [undefined, undefined],
    ]);
  });

  it('is resolved only when the outcome of another batch with the same actor is known', async () => {
    runtime = assemble({}, 2);
    const ref = { kind: 'device', id: 'd' } as const;
    await runtime.actors.create(ref, event('make', { id: 'd' }));
    const seen: unknown[] = [];
    const judge = (actors: BatchView): AddressedEvent | null => {
      const found = actors.peek<LampContext>(ref);
      seen.push(found?.snapshot.context.fixed.note);
      return found === undefined ? null : making();
    };
    runtime.outbox.registerResolver(
      'plan.ask',
      async () => judge(runtime.actors),
      (_, batch) => judge(batch),
    );
    let goOn = () => {};
    store.beforeCommit = ({ actors }) =>
      actors[0]?.ref.id === 'd' ? new Promise<void>((resolve) => (goOn = resolve)) : undefined;
    const noted = runtime.actors.send(ref, event('note', { text: 'in another batch' }));
    await new Promise(setImmediate);
    const reply = ask();
    await eventually(() => store.rows.has('plan:p'));
    goOn();
    await noted;
    await (await reply).messagesDelivered;
    expect([seen, isMade()]).toEqual([[undefined, 'in another batch'], true]);
  });

  it.each([
    ['is null', () => null],
    [
      'throws',
      () => {
        throw new Error('who knows');
      },
    ],
    ['is an event on which its machine fails', () => making({ event: event('boom') })],
  ])('goes through the outbox if its resolution from memory %s', async (_, atHand) => {
    runtime.outbox.registerResolver('plan.ask', async () => making(), atHand);
    await (await ask()).messagesDelivered;
    expect([kinds(), store.outbox.size, isMade()]).toEqual([['plan', 'device'], 0, true]);
  });

  it('goes through the outbox if its sender is quarantined in the same batch', async () => {
    runtime = assemble({ failuresToQuarantine: 1 });
    runtime.outbox.registerResolver('plan.ask', async () => null);
    await (await ask()).messagesDelivered;
    const resolved: ResolvableOutput[] = [];
    runtime.outbox.registerResolver(
      'plan.ask',
      async (output) => {
        resolved.push(output);
        throw new Quarantined('boom');
      },
      () => making(),
    );
    const ref = { kind: 'plan', id: 'p' } as const;
    const [requested, failed] = [runtime.actors.send(ref, event('ask')), runtime.actors.send(ref, event('boom'))];
    await expect(failed).rejects.toThrow(EventFailed);
    await expect((await requested).messagesDelivered).rejects.toThrow(Quarantined);
    expect([resolved, isMade(), store.outbox.size]).toEqual([[ASK], false, 1]);
  });

  it('is completed if the actor to create exists already', async () => {
    await runtime.actors.create({ kind: 'device', id: 'c' }, event('make', { id: 'c' }));
    runtime.outbox.registerResolver(
      'plan.ask',
      async () => making(),
      () => making(),
    );
    await (await ask()).messagesDelivered;
    expect([store.outbox.size, store.rows.get('device:c')?.version]).toEqual([0, 1]);
  });

  it.each([
    ['the store refuses the new actor for its data', true],
    ['somebody else has made it', false],
  ])('goes through the outbox if %s', async (_, refused) => {
    let otherwise = 0;
    runtime.outbox.registerResolver(
      'plan.ask',
      async () => {
        otherwise += 1;
        expect(runtime.actors.inspect({ kind: 'device', id: 'c' }).live).toBe(false);
        return refused ? null : making();
      },
      () => making(),
    );
    if (!refused) store.rows.set('device:c', { ref: { kind: 'device', id: 'c' }, version: 4 } as never);
    store.beforeCommit = ({ actors }) => {
      if (refused && actors.some(({ ref }) => ref.kind === 'device')) throw new DataRefused('22P05', 'no');
    };
    await (await ask()).messagesDelivered;
    expect([store.rows.has('plan:p'), otherwise, store.outbox.size]).toEqual([true, 1, 0]);
    expect(store.rows.get('device:c')?.version).toBe(refused ? undefined : 4);
  });

  it.each(['beforeCommit', 'afterCommit'] as const)(
    'takes effect once if the connection was lost: %s',
    async (when) => {
      runtime.outbox.registerResolver('plan.ask', never, () => making());
      let losses = 2;
      store[when] = () => {
        if (losses-- > 0) throw new CommitUnknown('connection lost');
      };
      await (await ask()).messagesDelivered;
      store.afterCommit = () => {};
      expect([store.rows.get('plan:p')?.version, store.rows.get('device:c')?.version]).toEqual([1, 1]);
      expect(store.journals.get('device:c')).toHaveLength(1);
    },
  );

  it.each([true, false])(
    'with an unknown commit outcome: the actor it created receives its pending messages (created: %s)',
    async (kept) => {
      runtime = assemble({ deviceTimeoutMs: 1 });
      runtime.outbox.registerResolver('plan.ask', never, () => making());
      let reply: Promise<unknown> = Promise.resolve();
      store[kept ? 'afterCommit' : 'beforeCommit'] = () => {
        store.afterCommit = store.beforeCommit = () => {};
        reply = runtime.actors.send({ kind: 'device', id: 'c' }, event('note', { text: 'later' }));
        reply.catch(() => {});
        throw new CommitUnknown('connection lost');
      };
      await expect(ask()).rejects.toThrow(CommitUnknown);
      if (kept) await reply;
      else await expect(reply).rejects.toThrow(NoSuchActor);
      expect(store.rows.get('device:c')?.context.note).toBe(kept ? 'later' : undefined);
    },
  );

  it('leaves no actor in memory while the store is unavailable, and has the same result afterwards', async () => {
    runtime.outbox.registerResolver('plan.ask', never, () => making());
    let away = 2;
    store.beforeCommit = () => {
      expect(runtime.actors.inspect({ kind: 'device', id: 'c' }).live).toBe(true);
      if (away-- > 0) throw new StoreUnavailable('away');
    };
    const reply = ask();
    await eventually(() => away === 1);
    await eventually(() => !runtime.actors.inspect({ kind: 'device', id: 'c' }).live);
    await (await reply).messagesDelivered;
    expect([kinds(), isMade()]).toEqual([['plan device'], true]);
  });
});
