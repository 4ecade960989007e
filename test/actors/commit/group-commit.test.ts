import { describe, expect, it } from 'vitest';
import { EventFailed } from '../../../src/actors/contract.ts';
import { IdempotencyConflict } from '../../../src/store/contract.ts';
import { eventLoopTurns, eventually } from '../../support/clock.ts';
import type { CommittedBatch } from '../../support/committed-batch.ts';
import { type LampContext, lamp } from '../../support/memory-actor-store.ts';
import { flatContext } from '../../support/stored-context.ts';
import { event, make, ref, restart, runtime, store, withRuntime } from '../runtime-fixture.ts';

withRuntime();

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
    restart({}, { batchesInFlight: 2 });
    await Promise.all([make('a'), make('b')]);
    const gates: (() => void)[] = [];
    const batches: CommittedBatch[] = [];
    store.beforeCommit = (batch) => {
      batches.push(batch);
      return new Promise<void>((resolve) => gates.push(resolve));
    };
    const order: string[] = [];
    const first = runtime.actors.send(ref('a'), event('press')).then(() => order.push('a1'));
    await eventually(() => gates.length === 1);
    const again = runtime.actors.send(ref('a'), event('press')).then(() => order.push('a2'));
    const second = runtime.actors.send(ref('b'), event('press')).then(() => order.push('b1'));
    await eventually(() => gates.length === 2);
    expect(batches[1]?.actors.map((actor) => actor.ref.id)).toEqual(['b']);
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
    restart();
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
    expect(store.commits.slice(1).map((batch) => batch.actors[0]?.idempotency?.key)).toEqual(['k1', 'k2']);

    // The key has a stored response: the event is refused, and the actor is unchanged.
    for (let n = 0; n < 4; n += 1) {
      const again = runtime.actors.send(ref('a'), event('press'), { idempotency: () => ({ ...row, answer: 'other' }) });
      await expect(again).rejects.toBeInstanceOf(IdempotencyConflict);
    }
    expect((await runtime.actors.read<LampContext>(ref('a')))?.snapshot.context.live.pressed).toBe(1);
    expect(store.quarantines).toEqual([]);
  });
});
