import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Runtime } from '../../src/actors/runtime.ts';
import type { MachineDefinition } from '../../src/machines/definition.ts';
import type { ActorRef } from '../../src/machines/outputs.ts';
import { CommitUnknown, StoreUnavailable } from '../../src/store/contract.ts';
import { eventually, type TestClock, testClock } from '../support/clock.ts';
import { silentLog } from '../support/lock-parts.ts';
import { lamp, MemoryActorStore, makeRuntimeStore } from '../support/memory-actor-store.ts';

const ref = (id: string): ActorRef => ({ kind: 'device', id });

let store: MemoryActorStore;
let clock: TestClock;
let runtime: Runtime;
let valid: boolean;
let checks = 0;

const make = (id: string) => runtime.actors.create(ref(id), { type: 'make', at: clock.now(), id } as never);

beforeEach(() => {
  store = new MemoryActorStore();
  clock = testClock();
  valid = true;
  runtime = new Runtime({
    store: makeRuntimeStore(store).store,
    definitions: () => lamp as unknown as MachineDefinition,
    clock,
    lease: {
      epoch: 1,
      valid() {
        checks += 1;
        return valid;
      },
    },
    limits: { callerTimeoutMs: 50 },
    log: silentLog,
  });
});
afterEach(() => runtime.halt());

describe('a process whose lease is over', () => {
  it('answers nothing from memory', async () => {
    await make('a');
    expect(runtime.actors.peek(ref('a'))).toBeDefined();
    valid = false;
    expect(runtime.actors.peek(ref('a'))).toBeUndefined();
    await expect(runtime.actors.read(ref('a'))).rejects.toBeInstanceOf(StoreUnavailable);
    await expect(runtime.actors.readAll('device', ['a'])).rejects.toBeInstanceOf(StoreUnavailable);
    expect(store.loads).toEqual([]);
  });

  it('sends no commit to the store', async () => {
    await make('a');
    const before = store.commits.length;
    valid = false;
    checks = 0;
    const sent = runtime.actors.send(ref('a'), { type: 'press', at: clock.now() } as never);
    await eventually(() => checks >= 3);
    expect(store.commits).toHaveLength(before);
    valid = true;
    await sent;
    expect(store.commits).toHaveLength(before + 1);
  });

  it('releases nothing of a commit during which the lease ended: no answer, no output', async () => {
    const transitions = vi.fn();
    runtime.actors.subscribeTransitions(transitions);
    store.afterCommit = () => {
      valid = false;
    };
    await expect(make('a')).rejects.toBeInstanceOf(CommitUnknown);
    expect(store.rows.has('device:a')).toBe(true);
    expect(transitions).not.toHaveBeenCalled();
  });
});

describe('a version conflict with another writer', () => {
  it('is logged and counted; the event is decided again on the stored state', async () => {
    const conflict = vi.fn();
    const warn = vi.fn();
    runtime.halt();
    runtime = new Runtime({
      store: makeRuntimeStore(store).store,
      definitions: () => lamp as unknown as MachineDefinition,
      clock,
      log: { ...silentLog, warn },
      meter: {
        batchCommitted() {},
        storeUnavailable() {},
        dataRefused() {},
        quarantined() {},
        passivated() {},
        versionConflict: conflict,
      },
    });
    await make('a');
    const row = store.rows.get('device:a');
    if (row === undefined) throw new Error('not stored');
    row.version = 7;
    const { version } = await runtime.actors.send(ref('a'), { type: 'press', at: clock.now() } as never);
    expect(version).toBe(8);
    expect(conflict).toHaveBeenCalledTimes(1);
    expect(warn).toHaveBeenCalledWith({ actor: 'device:a', version: 1 }, 'version conflict; reloading actor');
  });
});
