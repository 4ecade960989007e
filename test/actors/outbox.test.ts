import { beforeEach, describe, expect, it, vi } from 'vitest';
import { StoreUnavailable } from '../../src/store/contract.ts';
import { eventually } from '../support/clock.ts';
import { lamp } from '../support/memory-actor-store.ts';
import {
  clock,
  event,
  leave,
  make,
  memory,
  outputTo,
  ref,
  restart,
  runtime,
  store,
  warnings,
  withRuntime,
} from './runtime-fixture.ts';

withRuntime();

// Behaviour of the runtime when a store, a target or a subscriber fails.

describe('the outbox', () => {
  it('keeps messages for a quarantined target, and delivers them after its release', async () => {
    await make('a');
    const row = store.rows.get('device:a');
    if (row) row.quarantine = 'three throws';
    runtime.halt();
    restart();
    leave('b', outputTo('a'));
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(1);
    expect(warnings).toContain('outbox delivery failed; retrying');
    await runtime.actors.releaseQuarantine(ref('a'));
    await eventually(() => store.outbox.size === 0);
    expect(store.rows.get('device:a')?.context.note).toBe('informed by x');
  });

  it('tries undeliverable messages once per sweep, however many there are', async () => {
    await make('a');
    const row = store.rows.get('device:a');
    if (row) row.quarantine = 'three throws';
    runtime.halt();
    restart();
    for (let index = 0; index < 1_100; index += 1) leave('b', outputTo('a'));
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(1_100);
    expect(warnings).toEqual(Array(2).fill('outbox delivery failed; retrying'));
    runtime.outbox.stop();
  });

  it('delivers messages behind many undeliverable ones', async () => {
    await make('a');
    await make('c');
    const row = store.rows.get('device:a');
    if (row) row.quarantine = 'three throws';
    runtime.halt();
    restart();
    for (let index = 0; index < 2_000; index += 1) leave('b', outputTo('a'));
    leave('b', outputTo('c'));
    await runtime.outbox.sweep();
    expect(store.rows.get('device:c')?.context.note).toBe('informed by x');
    expect(store.outbox.size).toBe(2_000);
    runtime.outbox.stop();
  });

  it('sweeps once more if a sweep was requested during a sweep', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    try {
      const pending = vi.spyOn(store, 'pendingOutbox');
      await Promise.all([runtime.outbox.sweep(), runtime.outbox.sweep(), runtime.outbox.sweep()]);
      expect(pending).toHaveBeenCalledTimes(1);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(pending).toHaveBeenCalledTimes(2);
      await vi.advanceTimersByTimeAsync(100_000);
      expect(pending).toHaveBeenCalledTimes(2);
    } finally {
      vi.useRealTimers();
    }
  });

  it('does not sweep after its stop, even if the stop came during a sweep', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    try {
      const pending = vi.spyOn(store, 'pendingOutbox').mockRejectedValue(new StoreUnavailable('closed'));
      const sweeping = runtime.outbox.sweep();
      runtime.outbox.stop();
      await sweeping;
      await vi.advanceTimersByTimeAsync(10_000);
      expect(pending).toHaveBeenCalledTimes(1);
    } finally {
      vi.useRealTimers();
    }
  });

  it('retries messages for a quarantined target every half minute, unless something else is due sooner', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    try {
      await make('a');
      const row = store.rows.get('device:a');
      if (row) row.quarantine = 'three throws';
      runtime.halt();
      restart();
      leave('b', outputTo('a'));
      const pending = vi.spyOn(store, 'pendingOutbox');
      await runtime.outbox.sweep();
      await vi.advanceTimersByTimeAsync(29_999);
      expect(pending).toHaveBeenCalledTimes(1);
      await vi.advanceTimersByTimeAsync(1);
      expect(pending).toHaveBeenCalledTimes(2);
      pending.mockRejectedValueOnce(new StoreUnavailable('gone'));
      await runtime.outbox.sweep();
      await vi.advanceTimersByTimeAsync(1_000);
      expect(pending).toHaveBeenCalledTimes(4);
    } finally {
      vi.useRealTimers();
    }
  });

  it('drops a message on which the target throws', async () => {
    await make('a');
    const original = lamp.journal;
    lamp.journal = () => {
      throw new Error('no note');
    };
    leave('b', outputTo('a'));
    await runtime.outbox.sweep();
    lamp.journal = original;
    await eventually(() => store.outbox.size === 0);
    expect(store.rows.get('device:a')?.context.note).toBeNull();
  });

  it('waits while the store is unavailable, and reports the age of the oldest message', async () => {
    let away = true;
    const pending = store.pendingOutbox.bind(store);
    store.pendingOutbox = async (limit, after) => {
      if (away) throw new StoreUnavailable('gone');
      return pending(limit, after);
    };
    await make('a');
    leave('b', outputTo('a'));
    expect(runtime.outbox.age()).toBe(0);
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(1);
    away = false;
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    store.beforeCommit = () => gate;
    await eventually(() => runtime.actors.stats().waiting === 1);
    clock.advance(7_000);
    expect(runtime.outbox.age()).toBe(7_000);
    open();
    await eventually(() => store.outbox.size === 0);
  });

  it('queries the open commands of a device again after the store was unavailable', async () => {
    await make('c1', 'command');
    memory.requested.open = ['c1'];
    const open = memory.store.commands.open;
    let away = true;
    memory.store.commands.open = async (deviceId) => {
      if (away) throw new StoreUnavailable('gone');
      return open(deviceId);
    };
    leave('a', { type: 'commands.tell', deviceId: 'a', event: { type: 'device.revoked', deviceId: 'a' } });
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(1);
    away = false;
    await runtime.outbox.sweep();
    expect(store.outbox.size).toBe(0);
    expect(store.rows.get('command:c1')?.context.note).toBe('informed by a');
  });
});

describe('a stale actor', () => {
  it('whose row was deleted refuses its pending events', async () => {
    await make('a');
    store.rows.delete('device:a');
    await expect(runtime.actors.send(ref('a'), event('press'))).rejects.toThrow('device:a');
  });
});

describe('the outbox of a runtime that enlists no actors', () => {
  beforeEach(() => {
    restart({ enlistedActors: 0 });
  });

  it('is delivered in process at once, and its row is deleted in the commit of the target', async () => {
    await Promise.all([make('a'), make('b')]);
    const reply = await runtime.actors.send(ref('a'), event('sendTo', { to: ref('b'), text: 'hello' }));
    expect(store.rows.get('device:b')?.context.note).toBeNull();
    await reply.messagesDelivered;
    expect(store.rows.get('device:b')?.context.note).toBe('informed by hello');
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
    restart();
    await runtime.start();
    expect(store.rows.get('device:b')?.context.note).toBe('informed by late');
    expect(store.outbox.size).toBe(0);
    await runtime.stop();
  });

  it('is swept periodically: rows of another process are delivered', async () => {
    await Promise.all([make('a'), make('b')]);
    runtime.halt();
    restart({ sweepMs: 5 });
    await runtime.start();
    const output = { type: 'actor.tell', to: ref('b'), event: { type: 'device.revoked', deviceId: 'left' } } as const;
    const row = { from: ref('a'), version: 9, n: 0, output };
    store.outbox.set('device:a:9:0', row as never);
    await eventually(() => store.rows.get('device:b')?.context.note === 'informed by left');
    await eventually(() => store.outbox.size === 0);
    await runtime.stop();
  });

  it('drops messages to a target that does not exist', async () => {
    await make('a');
    const reply = await runtime.actors.send(ref('a'), event('sendTo', { to: ref('nobody'), text: 'x' }));
    await reply.messagesDelivered;
    expect(store.outbox.size).toBe(0);
  });

  it('delivers to every open command of a device', async () => {
    await Promise.all([make('a'), runtime.actors.create(ref('c1', 'command'), event('make', { id: 'c1' }))]);
    memory.requested.open = ['c1', 'gone'];
    const reply = await runtime.actors.send(ref('a'), event('sendToAll'));
    await reply.messagesDelivered;
    expect(store.rows.get('command:c1')?.context.note).toBe('informed by a');
    expect(store.outbox.size).toBe(0);
  });
});
