import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Quarantined } from '../../src/actors/contract.ts';
import { Runtime } from '../../src/actors/runtime.ts';
import type { VerificationWatches } from '../../src/actors/verification-watches.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import type { ActorRef, Output } from '../../src/machines/outputs.ts';
import { CommitUnknown, StoreUnavailable } from '../../src/store/contract.ts';
import { eventually, type TestClock, testClock } from '../support/clock.ts';
import { lamp, MemoryActorStore, makeRuntimeStore } from '../support/memory-actor-store.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {} };

let actors: MemoryActorStore;
let memory: ReturnType<typeof makeRuntimeStore>;
let clock: TestClock;
let runtime: Runtime;
let warnings: Record<string, unknown>[];
let events: { id: string; type: string; event: Record<string, unknown> }[];

beforeEach(async () => {
  actors = new MemoryActorStore();
  memory = makeRuntimeStore(actors);
  clock = testClock();
  events = [];
  warnings = [];
  runtime = new Runtime({
    store: memory.store,
    definitions: () => lamp as unknown as MachineDefinition,
    clock,
    log: { ...silent, warn: (about) => warnings.push({ ...about }) },
  });
  const send = runtime.actors.send.bind(runtime.actors);
  runtime.actors.send = (ref: ActorRef, event, options) => {
    events.push({ id: ref.id, type: event.type, event: event as never });
    return send(ref, event, options);
  };
  for (const id of ['d1', 'd2']) {
    await runtime.actors.create({ kind: 'device', id }, { type: 'make', at: clock.now(), id } as never);
  }
});
afterEach(() => runtime.halt());

const session = (deviceId: string, sessionId: string) => ({
  deviceId,
  tenantId: 't',
  sessionId,
  keyVersion: 1,
  subscribed: false,
});
const emit = (output: Output) => runtime.eventBus.emit(output);

describe('presence', () => {
  it('does not treat a corrected clock as silence, and detects silence while the clock stands still', async () => {
    const { sessions } = runtime;
    let elapsed = 0;
    clock.elapsed = () => elapsed;
    sessions.open(session('d1', 's1'));
    clock.advance(86_400_000);
    await sessions.tick();
    expect(events).toEqual([]);
    elapsed += 301_000;
    await sessions.tick();
    await eventually(() => events.length === 1);
    expect(events[0]).toMatchObject({ id: 'd1', type: 'presence.lost' });
  });

  it('marks a device offline when its session ends, but not when an older session ends', async () => {
    const { sessions } = runtime;
    expect(sessions.open(session('d1', 's1'))).toBeUndefined();
    expect(sessions.open(session('d1', 's2'))?.sessionId).toBe('s1');
    sessions.close('d1', 's1');
    expect(events).toEqual([]);
    expect(sessions.count()).toBe(1);
    sessions.close('d1', 's2');
    expect(events.map((event) => [event.id, event.type])).toEqual([['d1', 'presence.lost']]);
    expect(sessions.get('d1')).toBeUndefined();
  });

  it('marks a device offline once, after three heartbeat intervals without a message', async () => {
    const { sessions } = runtime;
    sessions.open(session('d1', 's1'));
    clock.advance(179_999);
    await sessions.tick();
    expect(events).toEqual([]);
    clock.advance(1);
    await sessions.tick();
    await sessions.tick();
    expect(events).toHaveLength(1);
    sessions.recordActivity('d1', { at: clock.now(), battery: 80 });
    clock.advance(180_000);
    await sessions.tick();
    expect(events).toHaveLength(2);
  });

  it('gives devices that were online before a restart sixty seconds to reconnect', async () => {
    const { sessions } = runtime;
    memory.requested.online = ['d1', 'd2', 'gone'];
    await sessions.start();
    sessions.open(session('d2', 's'));
    clock.advance(59_999);
    await sessions.tick();
    expect(events).toEqual([]);
    clock.advance(1);
    await sessions.tick();
    await sessions.tick();
    expect(events.map((event) => event.id)).toEqual(['d1', 'gone']);
    await sessions.stop();
  });

  it('marks many devices that did not reconnect offline in batches', async () => {
    const { sessions } = runtime;
    memory.requested.online = Array.from({ length: 1_200 }, (_, n) => `gone${n}`);
    await sessions.start();
    clock.advance(60_000);
    await sessions.tick();
    expect(events).toHaveLength(500);
    await eventually(() => events.length === 1_200);
    expect(Math.max(...actors.loads.map((ids) => ids.length))).toBe(500);
  });

  it('marks a device offline later if the store is unavailable', async () => {
    const { sessions } = runtime;
    sessions.open(session('d1', 's1'));
    const send = runtime.actors.send;
    let away = true;
    runtime.actors.send = (ref, event) => (away ? Promise.reject(new StoreUnavailable('gone')) : send(ref, event));
    sessions.close('d1', 's1');
    await new Promise((resolve) => setImmediate(resolve));
    away = false;
    clock.advance(60_000);
    await sessions.tick();
    expect(events.map((event) => event.type)).toEqual(['presence.lost']);
  });

  it('ends a sweep although devices keep sending messages', async () => {
    const { sessions } = runtime;
    const flush = memory.store.devices.flushPresence;
    let activities = 0;
    memory.store.devices.flushPresence = async (rows) => {
      await flush(rows);
      if (activities++ < 50) sessions.recordActivity('d2', { at: clock.now() });
    };
    sessions.recordActivity('d1', { at: clock.now() });
    await sessions.tick();
    expect(activities).toBe(1);
    expect(sessions.lastSeen('d2')).toBe(clock.now());
  });

  it('keeps unwritten data when more arrives in the meantime', async () => {
    const { sessions } = runtime;
    const start = clock.now();
    const flush = memory.store.devices.flushPresence;
    let fail = (_: Error) => {};
    memory.store.devices.flushPresence = () => new Promise((_, reject) => (fail = reject));
    sessions.open(session('d1', 's1'));
    sessions.recordActivity('d1', { at: start + 5, battery: 40 });
    sessions.recordRefusal('d1');
    sessions.recordActivity('d2', { at: start + 6 });
    sessions.recordActivity('d3', { at: start + 7, battery: 60 });
    sessions.open({ ...session('d1', 's2'), keyVersion: 2 });
    const flushing = sessions.flush();
    sessions.recordRefusal('d1');
    sessions.recordRefusal('d2');
    sessions.recordActivity('d3', { at: start + 9 });
    sessions.close('d1', 's2');
    fail(new StoreUnavailable('gone'));
    await flushing;
    memory.store.devices.flushPresence = flush;
    await sessions.flush();
    const written = memory.flushed.toSorted((a, b) => a.deviceId.localeCompare(b.deviceId));
    expect(written).toEqual([
      {
        deviceId: 'd1',
        lastSeen: start + 5,
        battery: 40,
        refusals: 2,
        keys: [
          { version: 1, usedAt: start + 5 },
          { version: 2, usedAt: start },
        ],
      },
      { deviceId: 'd2', lastSeen: start + 6, refusals: 1 },
      { deviceId: 'd3', lastSeen: start + 9, battery: 60 },
    ]);
  });

  it('writes the connection history, newest first, and keeps what was not written', async () => {
    const { sessions } = runtime;
    const flush = memory.store.devices.flushPresence;
    sessions.recordConnection('d1', { at: 1, event: 'hello', firmware: '1.0.0' });
    memory.store.devices.flushPresence = () => Promise.reject(new StoreUnavailable('gone'));
    await sessions.flush();
    memory.store.devices.flushPresence = flush;
    runtime.eventBus.emit({ type: 'device.presence', tenantId: 't', deviceId: 'd1', online: true, at: 2 });
    const known = [
      { at: 2, event: 'online' },
      { at: 1, event: 'hello', firmware: '1.0.0' },
    ];
    expect(sessions.connections('d1')).toEqual(known);
    await sessions.flush();
    expect(memory.flushed).toMatchObject([{ deviceId: 'd1', lastSeen: 0, connections: known }]);
    expect(sessions.connections('d1')).toEqual([]);
    for (let at = 0; at < 50; at++) sessions.recordConnection('d1', { at, event: 'offline' });
    expect(sessions.connections('d1').map(({ at }) => at)).toEqual(Array.from({ length: 20 }, (_, n) => 49 - n));
  });

  it('does not count a rejected message again after a flush with an unknown outcome', async () => {
    const { sessions } = runtime;
    const flush = memory.store.devices.flushPresence;
    sessions.recordActivity('d1', { at: 5, battery: 40 });
    sessions.recordConnection('d1', { at: 5, event: 'online' });
    sessions.recordRefusal('d1');
    memory.store.devices.flushPresence = async (rows) => {
      await flush(rows);
      throw new CommitUnknown('connection lost');
    };
    await sessions.flush();
    memory.store.devices.flushPresence = flush;
    sessions.recordRefusal('d1');
    sessions.recordRefusal('d1');
    await sessions.flush();
    const row = { deviceId: 'd1', lastSeen: 5, battery: 40, connections: [{ at: 5, event: 'online' }] };
    expect(memory.flushed).toEqual([
      { ...row, refusals: 1 },
      { ...row, refusals: 2 },
    ]);
  });

  it('has what a flush is writing until the store has it', async () => {
    const { sessions } = runtime;
    const flush = memory.store.devices.flushPresence;
    const stored = Promise.withResolvers<void>();
    memory.store.devices.flushPresence = async (rows) => {
      await stored.promise;
      await flush(rows);
    };
    sessions.recordActivity('d1', { at: 1, battery: 40, telemetry: { rssi: -60, freeHeap: 7 } });
    sessions.recordConnection('d1', { at: 1, event: 'online' });
    const flushing = sessions.flush();
    sessions.recordActivity('d1', { at: 2, telemetry: { rssi: -50 } });
    sessions.recordConnection('d1', { at: 2, event: 'offline' });
    expect(sessions.telemetry('d1')).toEqual({ rssi: -50, freeHeap: 7 });
    expect(sessions.battery('d1')).toBe(40);
    expect(sessions.connections('d1').map(({ event }) => event)).toEqual(['offline', 'online']);
    stored.resolve();
    await flushing;
    expect(sessions.connections('d1').map(({ event }) => event)).toEqual(['offline']);
  });

  it('keeps the latest of each member of telemetry, in memory and in what is written', async () => {
    const { sessions } = runtime;
    const flush = memory.store.devices.flushPresence;
    expect(sessions.telemetry('d1')).toEqual({});
    sessions.open(session('d1', 's1'));
    sessions.recordActivity('d1', { at: 1, telemetry: { rssi: -60, deviceType: 'lamp' } });
    memory.store.devices.flushPresence = () => Promise.reject(new StoreUnavailable('gone'));
    await sessions.flush();
    memory.store.devices.flushPresence = flush;
    sessions.recordActivity('d1', { at: 2, telemetry: { rssi: -50, deviceType: null } });
    sessions.recordActivity('d1', { at: 3 });
    await sessions.flush();
    expect(memory.flushed).toMatchObject([{ deviceId: 'd1', lastSeen: 3, telemetry: { rssi: -50, deviceType: null } }]);
    sessions.recordActivity('d1', { at: 4, telemetry: { freeHeap: 7 } });
    expect(sessions.telemetry('d1')).toEqual({ rssi: -50, deviceType: null, freeHeap: 7 });
    await sessions.flush();
    expect(memory.flushed.at(-1)).toMatchObject({ telemetry: { freeHeap: 7 } });
  });

  it('marks a silent device offline later if the store is unavailable, although its session is open', async () => {
    const { sessions } = runtime;
    sessions.open(session('d1', 's1'));
    sessions.open(session('d2', 's2'));
    const send = runtime.actors.send;
    let away = true;
    runtime.actors.send = (ref, event) => (away ? Promise.reject(new StoreUnavailable('gone')) : send(ref, event));
    clock.advance(180_000);
    await sessions.tick();
    await new Promise((resolve) => setImmediate(resolve));
    away = false;
    sessions.recordActivity('d2', { at: clock.now() });
    await sessions.tick();
    expect(events.map((event) => [event.id, event.type])).toEqual([['d1', 'presence.lost']]);
  });

  it('retries the disconnection of a quarantined device once, half a minute later, however often it reconnected', async () => {
    const { sessions } = runtime;
    const offered = vi.fn(() => Promise.reject(new Quarantined('three throws')));
    runtime.actors.send = offered;
    for (const id of ['s1', 's2', 's3']) {
      sessions.open(session('d1', id));
      sessions.close('d1', id);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(offered).toHaveBeenCalledTimes(3);
    clock.advance(29_999);
    await sessions.tick();
    expect(offered).toHaveBeenCalledTimes(3);
    clock.advance(1);
    await sessions.tick();
    expect(offered).toHaveBeenCalledTimes(4);
  });

  it('logs one line for many devices that are marked offline later', async () => {
    const { sessions } = runtime;
    memory.requested.online = Array.from({ length: 700 }, (_, n) => `gone${n}`);
    runtime.actors.send = () => Promise.reject(new StoreUnavailable('gone'));
    await sessions.start();
    clock.advance(60_000);
    await sessions.tick();
    await eventually(() => warnings.length === 2);
    expect(warnings.map(({ devices }) => devices)).toEqual([500, 200]);
    await sessions.stop();
  });

  it('writes in batches, and retries when the store is unavailable', async () => {
    const { sessions } = runtime;
    sessions.recordActivity('d1', { at: 5 });
    sessions.recordActivity('d1', { at: 6, battery: 40 });
    sessions.recordActivity('d2', { at: 7, battery: 41 });
    sessions.recordRefusal('d1');
    sessions.recordRefusal('d1');
    sessions.recordRefusal('d3');
    sessions.open(session('d1', 's1'));
    expect(sessions.lastSeen('d1')).toBe(6);
    expect(sessions.lastSeen('nobody')).toBeUndefined();
    const flush = memory.store.devices.flushPresence;
    memory.store.devices.flushPresence = async () => {
      throw new StoreUnavailable('gone');
    };
    await sessions.tick();
    expect(memory.flushed).toEqual([]);
    memory.store.devices.flushPresence = flush;
    await sessions.tick();
    expect(memory.flushed).toEqual([
      { deviceId: 'd1', lastSeen: 6, battery: 40, refusals: 2, keys: [{ version: 1, usedAt: clock.now() }] },
      { deviceId: 'd2', lastSeen: 7, battery: 41 },
      { deviceId: 'd3', lastSeen: 0, refusals: 1 },
    ]);
    expect(sessions.lastSeen('d1')).toBe(clock.now());
    for (let index = 0; index < 1_500; index += 1) sessions.recordActivity(`x${index}`, { at: 1 });
    await sessions.flush();
    expect(memory.flushed).toHaveLength(1_503);
  });

  it('records when each key was last used: at its sign-in, and while its session receives messages', async () => {
    const { sessions } = runtime;
    const start = clock.now();
    sessions.open(session('d1', 's1'));
    expect([...sessions.keysUsed('d1')]).toEqual([[1, start]]);
    sessions.recordActivity('d1', { at: start + 5 });
    sessions.open({ ...session('d1', 's2'), keyVersion: 2 });
    sessions.close('d1', 's2');
    const used = [
      [1, start + 5],
      [2, start],
    ];
    expect([...sessions.keysUsed('d1')]).toEqual(used);
    await sessions.flush();
    expect(memory.flushed[0]?.keys).toEqual(used.map(([version, usedAt]) => ({ version, usedAt })));
    expect(sessions.keysUsed('d1').size).toBe(0);
  });
});

describe('a granted subscription', () => {
  it('wakes only the pending commands of the current session', async () => {
    const { sessions } = runtime;
    memory.requested.pending = ['c1', 'c2'];
    await runtime.actors.create({ kind: 'command', id: 'c1' }, { type: 'make', at: 1, id: 'c1' } as never);
    sessions.open(session('d1', 's1'));
    await sessions.markSubscribed('d1', 'another');
    expect(sessions.get('d1')?.subscribed).toBe(false);
    await sessions.markSubscribed('d1', 's1');
    expect(sessions.get('d1')?.subscribed).toBe(true);
    expect(events.map((event) => [event.id, event.type, event.event.sessionId])).toEqual([
      ['c1', 'session.ready', 's1'],
      ['c2', 'session.ready', 's1'],
    ]);
  });

  it('also reaches a command that was decided just before it', async () => {
    const { sessions } = runtime;
    sessions.open(session('d1', 's1'));
    await runtime.actors.create({ kind: 'command', id: 'c1' }, { type: 'make', at: 1, id: 'c1' } as never);
    const changed = {
      type: 'command.changed' as const,
      tenantId: 't',
      deviceId: 'd1',
      commandId: 'c1',
      status: 'dispatched' as const,
      verification: 'pending' as const,
      at: 1,
    };
    emit(changed);
    expect(events).toEqual([]);
    await sessions.markSubscribed('d1', 's1');
    emit({ ...changed, status: 'acknowledged' });
    emit({ ...changed, commandId: 'unknown' });
    expect(events).toEqual([]);
    const peek = runtime.actors.peek;
    runtime.actors.peek = (() => ({ snapshot: { context: { live: { delivery: { sessionId: null } } } } })) as never;
    emit(changed);
    runtime.actors.peek = (() => ({ snapshot: { context: { live: { delivery: { sessionId: 's1' } } } } })) as never;
    emit(changed);
    runtime.actors.peek = peek;
    expect(events.map((event) => event.type)).toEqual(['session.ready']);
  });
});

describe('watches', () => {
  const watch = (commandId: string): Output => ({
    type: 'verification.watch',
    deviceId: 'd1',
    commandId,
    expected: { on: true },
  });

  it('follow the status of commands, and remember which one received a state that did not match', async () => {
    const watches: VerificationWatches = runtime.watches;
    expect(watches.forDevice('d1')).toEqual([]);
    emit(watch('c1'));
    emit(watch('c1'));
    emit(watch('c2'));
    expect(watches.forDevice('d1').map((one) => [one.commandId, one.seen])).toEqual([
      ['c1', false],
      ['c2', false],
    ]);
    emit({ type: 'verification.unwatch', deviceId: 'd1', commandId: 'c2' });
    expect(watches.forDevice('d1')).toHaveLength(1);
    emit({ type: 'verification.unwatch', deviceId: 'd1', commandId: 'c1' });
    emit({ type: 'verification.unwatch', deviceId: 'nobody', commandId: 'c1' });
    expect(watches.forDevice('d1')).toEqual([]);
  });

  it('are rebuilt from the command rows at a start', async () => {
    memory.requested.watching = [{ deviceId: 'd1', commandId: 'c9', expected: { on: true }, seen: true }];
    await runtime.start();
    expect(runtime.watches.forDevice('d1')).toEqual([{ commandId: 'c9', expected: { on: true }, seen: true }]);
    await runtime.stop();
  });
});
