import { expect, it } from 'vitest';
import { startFlagRefresh } from '../../src/main/flag-refresh.ts';
import type { Flags } from '../../src/services/flags.ts';

it('reads the flags periodically, also after a store outage', async () => {
  let reads = 0;
  const warned: string[] = [];
  const flags = {
    refresh: async () => {
      reads += 1;
      if (reads === 1) throw new Error('away');
    },
  } as Flags;
  const log = { debug() {}, info() {}, warn: (_: object, text: string) => void warned.push(text), error() {} };
  const timer = startFlagRefresh(flags, log, 1);
  await expect.poll(() => reads).toBeGreaterThan(2);
  clearInterval(timer);
  expect(warned).toEqual(['flag refresh failed; keeping the last known flags']);
});
