import { expect, it } from 'vitest';
import { type RunOptions, wholeRun } from './options.ts';
import { shrink } from './shrink.ts';

it('keeps what a failure needs and removes everything else', async () => {
  const needed = (options: RunOptions) =>
    options.stormMs >= 3_000 &&
    options.parts.includes('plans') &&
    options.parts.includes('reads') &&
    options.faults.includes('kill') &&
    options.mostFaults >= 5;
  const tried: RunOptions[] = [];
  const smallest = await shrink(wholeRun(7), async (options) => {
    tried.push(options);
    return needed(options);
  });
  expect(smallest).toEqual({
    ...{ seed: 7, stormMs: 3_750, hosts: 1, mostFaults: 5 },
    ...{ parts: ['plans', 'reads'], faults: ['kill'] },
  });
  expect(tried.length).toBeLessThan(60);
});

it('keeps both processes if both are needed', async () => {
  const smallest = await shrink(wholeRun(7), async ({ hosts }) => hosts !== 1);
  expect(smallest).toEqual({ seed: 7, stormMs: 1_000, hosts: null, mostFaults: 1_000, parts: [], faults: [] });
});

it('returns a run unchanged if it fails only in full', async () => {
  expect(await shrink(wholeRun(7), async () => false)).toEqual(wholeRun(7));
});
