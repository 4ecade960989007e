import { expect, it } from 'vitest';
import { DeviceCounts } from '../../../src/store/postgres/device-counts.ts';

it('a count is read again when tenants were added to the process, also while it was being read', async () => {
  let generation = 0;
  const counts = new DeviceCounts(() => generation);
  const counted = (n: number) => counts.of('tenant', async () => n);
  expect([await counted(1), await counted(2)]).toEqual([1, 1]);
  generation += 1;
  const during = counts.of('tenant', async () => {
    generation += 1;
    return 3;
  });
  expect(await during).toBe(3);
  expect([await counted(4), await counted(5)]).toEqual([4, 4]);
});
