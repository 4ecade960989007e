import { expect, it } from 'vitest';
import { adviceOf, commandOf, type Failed, shrinkEach } from './commands.ts';
import { wholeRun } from './options.ts';

const failures = (count: number): Failed[] =>
  Array.from({ length: count }, (_, n) => ({ options: wholeRun(n + 1), invariant: `invariant-${n + 1}` }));

const linesOf = async (failed: readonly Failed[], defect?: string): Promise<string[]> => {
  const lines: string[] = [];
  const shrunk = async ({ options }: Failed) => ({ ...options, stormMs: 1_000, faults: ['kill' as const] });
  await shrinkEach(failed, shrunk, (line) => void lines.push(line), defect);
  return lines;
};

it('shrinks each failing seed for the invariant that it violated', async () => {
  expect(await linesOf(failures(2))).toEqual([
    'the smallest run from seed 1 that violates invariant-1:',
    '  npm run simulate -- --seed 1 --duration 1 --faults kill --trace',
    'the smallest run from seed 2 that violates invariant-2:',
    '  npm run simulate -- --seed 2 --duration 1 --faults kill --trace',
  ]);
});

it('shrinks five failing seeds, and prints the commands that shrink the others', async () => {
  const lines = await linesOf(failures(7), 'key-grace-ignored');
  expect(lines.filter((line) => line.startsWith('the smallest'))).toHaveLength(5);
  expect(lines.slice(10)).toEqual([
    'not shrunk, only 5 are:',
    '  npm run simulate -- --seed 6 --defect key-grace-ignored',
    '  npm run simulate -- --seed 7 --defect key-grace-ignored',
  ]);
});

it('prints nothing if no seed failed', async () => {
  expect(await linesOf([])).toEqual([]);
});

it('prints the command that replays a failing seed and the one that shrinks it', () => {
  expect(adviceOf(wholeRun(42))).toEqual([
    'replay: npm run simulate -- --seed 42 --trace',
    'shrink: npm run simulate -- --seed 42',
  ]);
});

it('keeps the excluded parts of a run', () => {
  const options = { ...wholeRun(3), hosts: 1 as const, parts: [], faults: [], mostFaults: 4 };
  expect(commandOf(options)).toBe('npm run simulate -- --seed 3 --hosts 1 --parts none --faults none --most-faults 4');
});
