import { afterEach, describe, expect, it, vi } from 'vitest';
import { hasGrown, LOAD_RATE, measureGrowth, printGrowth, type Sample } from '../../../bench/soak/growth.ts';

const MiB = 2 ** 20;
const RESIDENT = 'process_resident_memory_bytes';
const COMMANDS = 'twinkeep_actors_live{kind="command"}';
const LOCKS = 'twinkeep_collection_entries{collection="locks"}';

/**
 * Four quarters of eight samples each; each value is constant in the first half and has a different value in the last
 * quarter.
 */
const soaked = (values: Record<string, [before: number, after: number]>): Sample[] =>
  Array.from({ length: 32 }, (_, at) =>
    Object.fromEntries(Object.entries(values).map(([name, [before, after]]) => [name, at < 16 ? before : after])),
  );

const grown = (values: Record<string, [before: number, after: number]>): string[] =>
  measureGrowth(soaked(values))
    .filter(hasGrown)
    .map(({ name }) => name);

describe('the verdicts of the soak benchmark', () => {
  afterEach(() => vi.restoreAllMocks());

  it('resident memory may grow by the young generation, a tenth and 24 MB', () => {
    const most = 300e6 * 1.1 + 128 * MiB + 24e6;
    expect(grown({ [RESIDENT]: [300e6, most - 1e6] })).toEqual([]);
    expect(grown({ [RESIDENT]: [300e6, most + 1e6] })).toEqual([RESIDENT]);
  });

  it('the young generation is not an allowance for the heap or for memory outside of it', () => {
    const names = ['nodejs_heap_size_used_bytes', 'resident_outside_heap_bytes'];
    expect(grown({ [names[0] as string]: [70e6, 110e6], [names[1] as string]: [70e6, 110e6] })).toEqual(names);
  });

  it('a collection may grow by a tenth and 20 entries', () => {
    expect(grown({ [LOCKS]: [10, 31] })).toEqual([]);
    expect(grown({ [LOCKS]: [10, 32] })).toEqual([LOCKS]);
  });

  it('live commands may grow with the load, and not without it', () => {
    expect(grown({ [COMMANDS]: [69, 133], [LOAD_RATE]: [100, 100] })).toEqual([COMMANDS]);
    expect(grown({ [COMMANDS]: [69, 133], [LOAD_RATE]: [60, 100] })).toEqual([]);
    expect(grown({ [COMMANDS]: [69, 200], [LOAD_RATE]: [60, 100] })).toEqual([COMMANDS]);
  });

  it('other collections may not grow with the load, and less load lowers no limit', () => {
    expect(grown({ [LOCKS]: [50, 100], [LOAD_RATE]: [50, 100] })).toEqual([LOCKS]);
    expect(grown({ [COMMANDS]: [100, 100], [LOAD_RATE]: [100, 10] })).toEqual([]);
  });

  it('the load itself is printed without a limit, a value that grew as missed', () => {
    const lines: string[] = [];
    vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line));
    const growths = measureGrowth(soaked({ [LOAD_RATE]: [50, 90], [LOCKS]: [1, 90] }));
    expect(printGrowth(growths, false)).toBe(false);
    expect(lines).toContain(`  ${LOAD_RATE}: 50 → 50 → 90`);
    expect(lines).toContain(`  ${LOCKS}: 1 → 1 → 90; at most 21: MISSED: it grows`);
  });
});
