import { expect, it } from 'vitest';
import { loadFlags } from '../../src/services/flags.ts';
import type { AdministrationStore } from '../../src/store/contract/administration.ts';
import { CommitUnknown, StoreUnavailable } from '../../src/store/contract.ts';

/** Flags in a store whose connection breaks before or after a write took effect, as set in `broken`. */
function storeThat(broken: { taken: boolean; thenAway?: number }) {
  const kept: Record<string, boolean> = { maintenance_mode: false };
  let away = 0;
  const store: AdministrationStore = {
    contentsByShard: async () => [],
    tenants: async () => ({ items: [], next: null, positions: () => [], count: async () => null }),
    async flags() {
      if (away-- > 0) throw new StoreUnavailable('away');
      return { ...kept };
    },
    async setFlag(flag, state) {
      if (broken.taken) kept[flag] = state;
      away = broken.thenAway ?? 0;
      throw new CommitUnknown('lost in the middle');
    },
  };
  return store;
}

it.each([true, false])('after a commit with an unknown outcome they equal the store: %s', async (taken) => {
  const flags = await loadFlags(storeThat({ taken }));
  await expect(flags.set('maintenance_mode', true)).rejects.toThrow(CommitUnknown);
  expect(flags.current().maintenance_mode).toBe(taken);
});

it('an unavailable store is read until it answers', async () => {
  const flags = await loadFlags(storeThat({ taken: true, thenAway: 1 }));
  await expect(flags.set('maintenance_mode', true)).rejects.toThrow(CommitUnknown);
  expect(flags.current().maintenance_mode).toBe(true);
});

it('a change that was certainly not committed changes nothing', async () => {
  const store = storeThat({ taken: false });
  store.setFlag = async () => {
    throw new StoreUnavailable('away');
  };
  const flags = await loadFlags(store);
  await expect(flags.set('maintenance_mode', true)).rejects.toThrow(StoreUnavailable);
  expect(flags.current().maintenance_mode).toBe(false);
});

it('subscribers are notified once of each change, until they unsubscribe', async () => {
  const store = storeThat({ taken: true });
  store.setFlag = async () => {};
  const flags = await loadFlags(store);
  const received: [string, boolean][] = [];
  const unsubscribe = flags.subscribe((flag, state) => void received.push([flag, state]));
  await flags.set('cognition_disabled', true);
  await flags.set('cognition_disabled', true);
  await flags.set('maintenance_mode', false);
  await flags.set('cognition_disabled', false);
  unsubscribe();
  await flags.set('cognition_disabled', true);
  expect(received).toEqual([
    ['cognition_disabled', true],
    ['cognition_disabled', false],
  ]);
});

it('are reloaded: changes by other processes apply, and subscribers are notified', async () => {
  const stored: Record<string, boolean> = {};
  const store = { ...storeThat({ taken: true }), flags: async () => ({ ...stored }) };
  const flags = await loadFlags(store);
  const received: unknown[] = [];
  flags.subscribe((...change) => received.push(change));
  stored.commands_disabled = true;
  await flags.refresh();
  await flags.refresh();
  expect(flags.current().commands_disabled).toBe(true);
  expect(received).toEqual([['commands_disabled', true]]);
});

it('a change during a reload is kept', async () => {
  const stored: Record<string, boolean> = {};
  const { promise: slow, resolve: answer } = Promise.withResolvers<void>();
  let holding = false;
  const flags = await loadFlags({
    ...storeThat({ taken: true }),
    async flags() {
      const read = { ...stored };
      if (holding) await slow;
      return read;
    },
    async setFlag(flag, state) {
      stored[flag] = state;
    },
  });
  holding = true;
  const read = flags.refresh();
  const set = flags.set('maintenance_mode', true);
  answer();
  await Promise.all([read, set]);
  expect(flags.current().maintenance_mode).toBe(true);
});
