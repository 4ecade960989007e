import { expect, it } from 'vitest';
import { loadFlags } from '../../src/operations/flags.ts';
import type { AdministrationStore } from '../../src/store/contract/administration.ts';
import { CommitUnknown, StoreUnavailable } from '../../src/store/contract.ts';

/** Flags in a store whose connection breaks as `broken` says: before or after it took what it was told. */
function storeThat(broken: { taken: boolean; thenAway?: number }) {
  const kept: Record<string, boolean> = { maintenance_mode: false };
  let away = 0;
  const store: AdministrationStore = {
    tenants: async () => ({ items: [], next: null, places: () => [] }),
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

it.each([true, false])('after a commit of which nobody knows they are what the store has: %s', async (taken) => {
  const flags = await loadFlags(storeThat({ taken }));
  await expect(flags.set('maintenance_mode', true)).rejects.toThrow(CommitUnknown);
  expect(flags.current().maintenance_mode).toBe(taken);
});

it('a store that is away then is asked until it answers', async () => {
  const flags = await loadFlags(storeThat({ taken: true, thenAway: 1 }));
  await expect(flags.set('maintenance_mode', true)).rejects.toThrow(CommitUnknown);
  expect(flags.current().maintenance_mode).toBe(true);
});

it('what was surely not done changes nothing', async () => {
  const store = storeThat({ taken: false });
  store.setFlag = async () => {
    throw new StoreUnavailable('away');
  };
  const flags = await loadFlags(store);
  await expect(flags.set('maintenance_mode', true)).rejects.toThrow(StoreUnavailable);
  expect(flags.current().maintenance_mode).toBe(false);
});

it('whoever listens hears each change once, and of what did not change nothing', async () => {
  const store = storeThat({ taken: true });
  store.setFlag = async () => {};
  const flags = await loadFlags(store);
  const heard: [string, boolean][] = [];
  flags.hear((flag, state) => void heard.push([flag, state]));
  await flags.set('cognition_disabled', true);
  await flags.set('cognition_disabled', true);
  await flags.set('maintenance_mode', false);
  await flags.set('cognition_disabled', false);
  expect(heard).toEqual([
    ['cognition_disabled', true],
    ['cognition_disabled', false],
  ]);
});
