import { afterEach, describe, expect, it, vi } from 'vitest';
import { reportNotMeasured } from '../../../bench/support/figures.ts';

describe('a limit of a benchmark that was not measured', () => {
  const before = process.exitCode;
  afterEach(() => {
    process.exitCode = before;
    vi.restoreAllMocks();
  });

  const printed = (short: boolean): string => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {});
    reportNotMeasured('part of Node-RED', 'NODE_RED is not set', { atLeast: 1, short });
    return String(log.mock.calls[0]?.[0]);
  };

  it('fails a full run', () => {
    expect(printed(false)).toBe('part of Node-RED: not measured (NODE_RED is not set); at least 1');
    expect(process.exitCode).toBe(1);
  });

  it('does not fail a short run', () => {
    expect(printed(true)).toContain('short run, no verdict');
    expect(process.exitCode).toBe(before);
  });
});
